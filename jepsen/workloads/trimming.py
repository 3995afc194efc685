"""Workload `plain` with continuous requests that delete the oldest records.

Small segments are deleted as files; a log can also begin in the middle of a large segment. A replica that was down may
lack records that the other replicas have already deleted."""

from typing import Final

from jepsen.workloads import plain
from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import SMALL_SEGMENTS, Plan
from jepsen.workloads.roles.trimmer import Trimmer

PLAN: Final = Plan({"narrow": 1, "rolling": 2, "whole": 1}, {"narrow": SMALL_SEGMENTS, "rolling": SMALL_SEGMENTS})
TRIM_SHARE: Final = 0.04
"""Share of the rate for trims, besides the operations of `plain`."""
_TRIMMER: Final = 98
"""Process number of the trimmer."""


def begin(client: Client) -> None:
    """Add the roles of this workload to the client."""
    plain.begin(client)
    shared = (client.access, client.history)
    trimmer = Trimmer(*shared, client.process(_TRIMMER), client.partitions, client.new_random())
    client.add_repeated_step(trimmer.step, TRIM_SHARE)
