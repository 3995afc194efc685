"""Workload `plain` with continuous deletion of the oldest records, by request, below any offset.

Small segments are deleted as files; in large ones the log begins in the middle. Replicas that were down find that the
other replicas no longer have the records they lack."""

from typing import Final

from jepsen.workloads import plain
from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import SMALL_SEGMENTS, Plan
from jepsen.workloads.roles.trimmer import Trimmer

PLAN: Final = Plan({"narrow": 1, "rolling": 2, "whole": 1}, {"narrow": SMALL_SEGMENTS, "rolling": SMALL_SEGMENTS})
TRIM_SHARE: Final = 0.04
"""Share of the rate for trims, besides the operations of `plain`."""
_TRIMMER: Final = 98
"""Process number."""


def begin(client: Client) -> None:
    """Add the roles of this workload to the client."""
    plain.begin(client)
    shared = (client.access, client.history)
    trimmer = Trimmer(*shared, client.process(_TRIMMER), client.partitions, client.new_random())
    client.add_repeated_step(trimmer.step, TRIM_SHARE)
