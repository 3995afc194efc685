"""Selection of the closed segments that retention keeps."""

from collections.abc import Sequence
from itertools import pairwise

from raftlog.storage.segment import Segment
from raftlog.topic_config import LogConfig
from raftlog.types import Offset


def find_retained_start(segments: Sequence[Segment], config: LogConfig, now_ms: int) -> Offset:
    """Return the base offset of the oldest segment that is kept; the active segment is always kept.

    A segment's age counts from its highest record timestamp or the creation of the next segment, whichever is later:
    so a client's slow clock deletes no record early. By bytes, a segment is deleted if the newer ones together still
    have at least `retention_bytes`."""
    excess = 0
    if config.retention_bytes is not None:
        excess = sum(segment.end_position for segment in segments) - config.retention_bytes
    for segment, newer in pairwise(segments):
        newest_ms = max(segment.times.max_timestamp, newer.created_ms)
        is_old = config.retention_ms is not None and now_ms - newest_ms > config.retention_ms
        if not is_old and excess < segment.end_position:
            return Offset(segment.base_offset)
        excess -= segment.end_position
    return Offset(segments[-1].base_offset)
