"""Part of `log` with only records and offsets, for systems without group members."""

from typing import Final

from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import Plan

PLAN: Final = Plan({"list": 2})
CRASHES: Final = 0.002
"""Share of requests whose sender is cancelled at a random time, which may be before the answer."""


def begin(client: Client) -> None:
    """Add the roles of this workload to the client."""
    client.add_producer(client.adapter.new_sender(), crashes=CRASHES)
    readers = client.add_readers()
    client.add_listers()
    client.add_committer(readers[0])
