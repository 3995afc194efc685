"""Workload in which `raftlog.client.Producer` writes all records; the rest is as in `log`."""

from typing import Final

from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import SMALL_SEGMENTS, Plan
from jepsen.workloads.roles.batch_producer import Deliverer

PLAN: Final = Plan({"narrow": 1, "wide": 3, "rolling": 2}, {"rolling": SMALL_SEGMENTS})


def begin(client: Client, *, is_keyed: bool = False) -> None:
    """Add the roles of this workload to the client."""
    deliverer = Deliverer(client.adapter, client.share, is_keyed=is_keyed)
    client.add_producer(deliverer)
    client.close_at_end(deliverer.close)
    readers = client.add_readers()
    client.add_listers()
    client.add_committer(readers[0])
