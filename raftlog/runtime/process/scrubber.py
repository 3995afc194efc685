"""Background scrub of a process: it reads every group's files in rounds, slice by slice.

It finds bit rot below the checkpoint while the other replicas still have the data. One group follows the other; the
pauses make a whole round take about `scrub_interval_ms`. A damaged index row is written again from its batch;
a damaged batch quarantines the replica, and is repaired."""

from collections.abc import Mapping
from typing import Final

from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.scrub import Scrub

SLICE_BYTES: Final = 256 * 1024
_SHARE_MAX: Final = 1 / 256
"""Longest pause between two slices, as a share of the round's time: the data may grow during the round."""


class Scrubber:
    """Background check of all stored bytes, group by group in rounds. The driver calls `tick` with the loop's time."""

    def __init__(self, interval_s: float) -> None:
        """Begin without groups; a round through all bytes takes about `interval_s` seconds."""
        self._interval_s = interval_s
        self._waiting: list[GroupKey] = []
        """Groups that this round has still to read, the next one last."""
        self._current: tuple[PartitionReplica, Scrub] | None = None
        self._next_at: float | None = None

    def tick(self, groups: Mapping[GroupKey, PartitionReplica], now: float) -> None:
        """Read a slice if the pause is over. Raises `OSError` when the disk cannot be read."""
        if self._next_at is None:
            self._next_at = now  # the first round begins with the process
        if now < self._next_at:
            return
        if self._current is None and not self._waiting:
            self._waiting = list(groups)[::-1]
        scrub = self._choose_scrub(groups)
        if scrub is None:
            return
        group, reader = scrub
        progress = reader.run_slice(SLICE_BYTES)
        total = sum(each.log.segments.size_bytes for each in groups.values())
        self._next_at = now + self._interval_s * min(progress.bytes_read / max(total, 1), _SHARE_MAX)
        if progress.damage is not None:
            group.note_damage(progress.damage)
        if progress.damage is not None or progress.has_finished:
            self._current = None

    def _choose_scrub(self, groups: Mapping[GroupKey, PartitionReplica]) -> tuple[PartitionReplica, Scrub] | None:
        """Return the group that is being read, or the next one that can be read, with its `Scrub`."""
        if self._current is None and self._waiting:
            group = groups.get(self._waiting.pop())
            if group is None or not group.log.segments.segments:
                return None
            self._current = group, Scrub(group.log.segments)
        if self._current is not None and not _is_readable(*self._current):
            self._current = None
        return self._current


def _is_readable(group: PartitionReplica, reader: Scrub) -> bool:
    """Return False while the group's files are moved, cut or repaired, and after they were replaced; else True."""
    return reader.has_log(group.log.segments) and not (
        group.is_closed or group.is_frozen or group.damage is not None or group.log.is_cut_waiting
    )
