"""Appends of traced requests, whose steps are measured."""

import asyncio
from collections.abc import Sequence

from raftlog.partitions.replica.pending_appends import ReplicaAppended
from raftlog.partitions.replica.replica import Replica
from raftlog.partitions.results import Acks
from raftlog.runtime.replica.append_watch import AppendWatch
from raftlog.runtime.tracing.spans import Span


def append_traced(
    replica: Replica, batches: Sequence[bytearray], acks: Acks, span: Span
) -> "asyncio.Future[ReplicaAppended]":
    """Append like `Replica.append`, and measure the steps of the append as parts of `span`."""
    proposed = replica.append(batches, acks)
    if not proposed.done():
        AppendWatch(replica.group, span.begin_child("replicate and commit"), proposed)
    return proposed
