"""Workload of one register for each partition: writes and linearizable reads through any node."""

from typing import Final

from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import SMALL_SEGMENTS, Plan
from jepsen.workloads.roles.register_access import RegisterReader, Writer

PLAN: Final = Plan({"register": 4}, {"register": SMALL_SEGMENTS})
WRITE_SHARE, READ_SHARE, POLL_SHARE = 0.4, 0.4, 0.2


def begin(client: Client) -> None:
    shared = (client.access, client.history, client.partitions)
    client.produce(Writer(*shared, client.values, client.senders, client.random), WRITE_SHARE)
    client.produce(RegisterReader(*shared, client.senders, client.random), READ_SHARE)
    client.read(POLL_SHARE)
