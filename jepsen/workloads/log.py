"""Plain requests, each sent once, through any node: batches, JSON, polls, lists, commits of groups without members."""

from typing import Final

from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import SMALL_SEGMENTS, Plan
from jepsen.workloads.roles.sending import Producer

PLAN: Final = Plan({"narrow": 1, "wide": 3, "rolling": 2}, {"rolling": SMALL_SEGMENTS})
"""`rolling` has small segments, so it rolls all the time."""


def begin(client: Client) -> None:
    client.produce(
        Producer(client.access, client.history, client.partitions, client.values, client.senders, client.random)
    )
    readers = client.read()
    client.list_offsets()
    client.commit(readers[0])
