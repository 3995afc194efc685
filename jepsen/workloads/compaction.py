"""Keyed records and tombstones by `raftlog.client.Producer`, in topics that are compacted continuously."""

from typing import Final

from jepsen.workloads import idempotent
from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import Plan

_COMPACTED: Final = {
    "segment.bytes": "16384",
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "2000",
}
"""Settings with segments of less than a second, so that compaction and removal of tombstones occur in a short test."""
PLAN: Final = Plan(
    {"narrow": 1, "wide": 3},
    {"narrow": _COMPACTED, "wide": _COMPACTED},
    is_keyed=True,
    serve_flags=("--retention-interval-s", "0.5"),
)


def begin(client: Client) -> None:
    """Add the roles of this workload to the client."""
    idempotent.begin(client, is_keyed=True)
