"""Compaction marks of a compacted topic: every replica compacts below the mark that the leader proposes.

    log start ≤ current mark ≤ next mark ≤ base offset of the newest segment, last stable offset

Segments between the mark and the newest segment are dirty, as far as they are older than `min.compaction.lag.ms`. A
mark is due when enough of the closed segments is dirty, or when a dirty one is older than `max.compaction.lag.ms`. A
mark also selects the tombstones to remove: those that were below a mark for at least `delete.retention.ms`, as this
leader saw it, so that slow readers still see them. The state of producers never depends on entries below a mark. Owned
by a replica."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from raftlog.errors import Unavailable
from raftlog.partitions.replica.producer_state import ProducerState
from raftlog.records import ControlKind
from raftlog.runtime.log.control_entries import CompactionMark, encode_compacted_to
from raftlog.runtime.replica.partition_replica import Committed, PartitionReplica
from raftlog.storage.segment import Segment
from raftlog.topic_config import TopicConfig
from raftlog.types import Offset, Term

_logger = logging.getLogger(__name__)
_MARKS_MAX: Final = 1_000
"""Marks whose age is remembered; beyond it, each new mark replaces the newest one."""


class CompactionMarks:
    """Compaction marks of one replica; `propose_if_due` is called periodically while it leads."""

    def __init__(self, name: str, group: PartitionReplica, producers: ProducerState) -> None:
        """Prepare the compaction marks of the replica `name`, which only a leader proposes."""
        self._name, self._group, self._producers = name, group, producers
        self._term = Term(0)
        """Term in which this replica, as leader, recorded these marks."""
        self._marks: deque[tuple[Offset, int]] = deque()
        """Marks with the times at which this leader saw them first; ascending."""
        self._old = Offset(0)
        """Highest mark that is old enough for its tombstones to be removed."""
        self._mark: asyncio.Future[Committed] | None = None
        """Mark that was proposed, and is not yet committed or rejected."""

    def propose_if_due(self, config: TopicConfig, wall_ms: int, now_ms: int) -> None:
        """Propose a mark if one is due and none is pending; `now_ms` is by the loop's clock."""
        if not config.is_compacted or self._mark is not None:
            return
        known = self._group.log.mark
        self._record_mark(known.compacted_to, config.delete_retention_ms, now_ms)
        dirty = self._dirty_segments(config.min_compaction_lag_ms, wall_ms)
        if not dirty or not self._is_due(dirty, config, wall_ms):
            return
        mark = CompactionMark(Offset(dirty[-1].next_offset), max(self._old, known.tombstones_to, Offset(0)))
        self._mark = self._group.propose_control([(ControlKind.COMPACTED_TO, encode_compacted_to(mark))])
        self._mark.add_done_callback(partial(self._on_outcome, mark))

    def _record_mark(self, known: Offset, retention_ms: int, now_ms: int) -> None:
        """Record when the present mark `known` was first seen; determine the highest mark older than `retention_ms`."""
        if self._term != self._group.core.term:
            self._term, self._old = self._group.core.term, Offset(0)
            self._marks.clear()
        if known > 0 and (not self._marks or self._marks[-1][0] < known):
            if len(self._marks) == _MARKS_MAX:
                self._marks.pop()
            self._marks.append((known, now_ms))
        while self._marks and now_ms - self._marks[0][1] >= retention_ms:
            self._old = self._marks.popleft()[0]

    def _dirty_segments(self, lag_ms: int, wall_ms: int) -> Sequence[Segment]:
        """Return the closed segments above the mark that may be compacted.

        The next segment's roll must be committed, no transaction may be open in them, and their records must be older
        than `lag_ms`."""
        segments = self._group.log.segments.segments
        try:
            stable = self._producers.stable_end
        except Unavailable:
            return []
        if not self._producers.is_covered:
            segments = segments[:-1]
        found: list[Segment] = []
        for segment, newer in pairwise(segments):
            is_young = lag_ms and wall_ms - _newest_ms(segment, newer) < lag_ms
            if newer.base_index > self._group.applied_index or newer.base_offset > stable or is_young:
                break
            if newer.base_offset > self._group.log.mark.compacted_to:
                found.append(segment)
        return found

    def _is_due(self, dirty: Sequence[Segment], config: TopicConfig, wall_ms: int) -> bool:
        """Return whether the uncompacted segments are old or large enough, by the topic's configuration."""
        lag_ms = config.max_compaction_lag_ms
        if lag_ms is not None and wall_ms - dirty[0].created_ms >= lag_ms:
            return True
        dirty_bytes = sum(segment.end_position for segment in dirty)
        segments = self._group.log.segments.segments
        clean_bytes = sum(each.end_position for each in segments if each.base_offset < dirty[0].base_offset)
        return dirty_bytes >= config.min_cleanable_dirty_ratio * (dirty_bytes + clean_bytes)

    def _on_outcome(self, mark: CompactionMark, proposed: "asyncio.Future[Committed]") -> None:
        """Log the outcome of a proposed mark, so that the next one can be proposed."""
        self._mark = None
        error = proposed.exception()
        if error is None:
            _logger.info("%s is compacted below offset %d", self._name, mark.compacted_to)
        else:
            _logger.info("%s: it is compacted later: %s", self._name, error)


def _newest_ms(segment: Segment, newer: Segment) -> int:
    """Return the time of the segment's newest record in ms, at least the creation time of the next segment.

    So records of a client with a slow clock are not compacted too early."""
    return max(segment.times.max_timestamp, newer.created_ms)
