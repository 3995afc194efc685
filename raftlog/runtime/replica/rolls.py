"""Rolls: the decision of a group's leader to begin a new segment, and the content of the roll.

Replicas roll only when they append a roll entry, so their files are the same with any clocks and settings.
A segment that holds no offset is never rolled, because two rolls would begin at the same offset: no roll is proposed
while another one is under way, or while the files do not show the end of the log yet. Owned by a group."""

import uuid
from collections.abc import Callable
from typing import Final

from raftlog.raft import Configuration, EntryId
from raftlog.records import ControlKind, build_control_batch
from raftlog.runtime.config import GroupLimits
from raftlog.runtime.log.control_entries import members_of
from raftlog.runtime.log.group_log import GroupLog
from raftlog.storage.roll import Roll, encode_roll
from raftlog.types import Index, Offset

_UNSTAMPED: Final = Offset(0)


class Rolls:
    """Decision of one Raft group's leader when to roll, and the content of its rolls."""

    def __init__(self, group_id: uuid.UUID, log: GroupLog, limits: GroupLimits) -> None:
        """Prepare the rolls of a group's log; `limits` bound the size and age of its segments."""
        self.limits = limits
        self.settings: tuple[tuple[str, str], ...] = ()
        """Settings of the topic, which rolls repeat."""
        self.proposed_index = Index(0)
        """Index of the newest roll that was proposed here."""
        self.ahead_bytes = 0
        """Bytes proposed in this turn, which the log does not have yet."""
        self.is_allowed: Callable[[], bool] = lambda: True
        """Returns whether the state machine that follows the log has processed the newest segment's beginning."""
        self._group_id, self._log = group_id, log

    def is_due(self, size: int, wall_ms: Callable[[], int]) -> bool:
        """Return whether the active segment is too old, or too large for `size` bytes more and their row."""
        limits, active = self.limits, self._log.segments.active
        return (
            active.end_position + self._log.unwritten_bytes + self.ahead_bytes + size > limits.segment_bytes
            or active.rows + self._log.last_index - self._log.written_index >= limits.segment_rows_max
            or (limits.segment_ms is not None and wall_ms() - active.created_ms >= limits.segment_ms)
        )

    def may_roll(self) -> bool:
        """Return whether the newest segment holds an offset, and no roll is on its way to the log."""
        log = self._log
        return (
            self.proposed_index <= log.last_index
            and log.written_index == log.last_index
            and log.next_offset > log.segments.active.base_offset
            and self.is_allowed()
        )

    def build_roll_batch(self, last: EntryId, configuration: Configuration, now_ms: int) -> bytearray:
        """Build the batch of a roll that follows entry `last`."""
        roll = Roll(
            self._group_id,
            last.index + 1,
            last.term,
            self._log.segments.log_start_offset,
            self._log.mark.compacted_to,
            now_ms,
            configuration.index,
            *members_of(configuration),
            self.settings,
        )
        return build_control_batch(ControlKind.ROLL, encode_roll(roll), now_ms, next_offset=_UNSTAMPED)
