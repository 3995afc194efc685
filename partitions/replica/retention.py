"""Retention: removal of whole closed segments from the beginning, with one committed trim for each decision.

Only the leader decides, by its own clock and files, and only over segments whose successor's roll is committed; the
others follow the trim entry, so all replicas keep the same files (docs/REPLICATION.md). Nothing above the last stable
offset is removed."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from raftlog.errors import Unavailable
from raftlog.partitions.counters import Counters
from raftlog.partitions.replica.producer_state import ProducerState
from raftlog.runtime.replica.partition_replica import Committed, PartitionReplica
from raftlog.storage.retention import find_retained_start
from raftlog.storage.segment import Segment
from raftlog.topic_config import TopicConfig
from raftlog.types import Offset

_logger = logging.getLogger(__name__)


class Retention:
    """Retention of one replica; `propose_if_due` is called periodically while it leads."""

    def __init__(self, name: str, group: PartitionReplica, producers: ProducerState, counters: Counters) -> None:
        self._name, self._group, self._producers, self._counters = name, group, producers, counters
        self._trim: asyncio.Future[Committed] | None = None
        """Trim that was proposed, and is not yet committed or rejected."""

    def propose_if_due(self, config: TopicConfig, now_ms: int) -> None:
        """Propose a trim if segments are due and none is pending."""
        if self._trim is not None or not config.deletes_old_segments:
            return
        group = self._group
        segments = group.log.segments.segments
        committed = tuple(segment for segment in segments if segment.base_index <= group.applied_index)
        if not self._producers.is_covered:
            committed = committed[: len(segments) - 1]  # a snapshot of producers after the newest roll comes first
        if not committed:
            return
        offset = self._limit_to_stable(find_retained_start(committed, config, now_ms), committed)
        if offset <= group.log_start_offset:
            return
        size = sum(segment.end_position for segment in committed if segment.next_offset <= offset)
        self._trim = group.propose_trim(offset, self._producers.snapshot_index)
        self._trim.add_done_callback(partial(self._on_outcome, offset, size))

    def _limit_to_stable(self, offset: Offset, segments: Sequence[Segment]) -> Offset:
        """Return `offset`, or the highest base offset of a segment below it that no open transaction precedes.

        0 if the open transactions are unknown."""
        try:
            stable = self._producers.stable_end
        except Unavailable:
            return Offset(0)
        if offset <= stable:
            return offset
        return Offset(max((each.base_offset for each in segments if each.base_offset <= stable), default=0))

    def _on_outcome(self, offset: Offset, size: int, trim: "asyncio.Future[Committed]") -> None:
        """Count the bytes that a trim removed, or log its failure; the next trim may begin."""
        self._trim = None
        error = trim.exception()
        if error is None:
            self._counters.segments_bytes_deleted += size
            _logger.info("%s begins at offset %d now; %d bytes were removed", self._name, offset, size)
        else:
            _logger.info("%s: retention is retried later: %s", self._name, error)
