"""Workload of one register for each partition: writes and linearizable reads through any node."""

from typing import Final

from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import SMALL_SEGMENTS, Plan
from jepsen.workloads.roles.register_access import RegisterReader, Writer

PLAN: Final = Plan({"register": 4}, {"register": SMALL_SEGMENTS})
WRITE_SHARE, READ_SHARE, POLL_SHARE = 0.4, 0.4, 0.2


def begin(client: Client) -> None:
    """Add the roles of this workload to the client."""
    shared = (client.access, client.history, client.partitions)
    client.add_producer(Writer(*shared, client.values, client.senders, client.random), WRITE_SHARE)
    client.add_producer(RegisterReader(*shared, client.senders, client.random), READ_SHARE)
    client.add_readers(POLL_SHARE)
