"""Keyed records by `raftlog.client.Producer`, handled by members of a group with `raftlog.client.HandlerLoop`."""

from typing import Final

from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import Plan
from jepsen.workloads.roles.batch_producer import Deliverer
from jepsen.workloads.roles.handlers import CONCURRENCY, Handlers

PLAN: Final = Plan({"narrow": 1, "wide": 6}, is_keyed=True)
_FIRST: Final = 200
"""Process number of the first handler; those of the others follow."""


def begin(client: Client) -> None:
    """Add the roles of this workload to the client."""
    deliverer = Deliverer(client.adapter, client.share, is_keyed=True)
    client.add_producer(deliverer)
    client.close_at_end(deliverer.close)
    client.add_listers()
    processes = [client.process(_FIRST + number) for number in range(CONCURRENCY)]
    topics = sorted(PLAN.partitions)
    client.add_role(Handlers(client.addresses, client.history, processes, topics, client.new_random()).run)
