"""Configurations that a replica starts from, read back from its log.

Each configuration entry names the one that it replaces. The walk goes from the latest entry back to the one in effect
at the commit index. Every roll repeats the configuration in effect at its index. So if the latest configuration entry
is not known, only the last segment is searched for it. A configuration whose entry was trimmed or compacted is read
from a roll; if no configuration entry is left, from the newest roll.

A damaged entry or roll on the way may hide a later configuration. The replica must not campaign without it: the walk
returns the damage, and the caller quarantines the replica. Called when a replica's log is opened, fetched or repaired.
"""

from typing import NamedTuple

from raftlog.errors import CorruptBatch
from raftlog.raft import Configuration
from raftlog.records import ControlKind, read_control
from raftlog.runtime.log.control_entries import configuration_of_roll, decode_configuration, is_control
from raftlog.storage.readable_log import ReadableLog
from raftlog.storage.recovery import read_roll
from raftlog.storage.roll import Roll, decode_roll
from raftlog.storage.segment import Segment
from raftlog.types import Index, Offset, Position

_WALK_BYTES = 1 << 20


class FoundConfigurations(NamedTuple):
    """Configurations of a log, as far as they are readable."""

    known: tuple[Configuration, ...]
    """The configuration in effect at the commit index and all later ones, ascending; empty for an empty log."""
    damage: CorruptBatch | None
    """First damaged entry or roll that was read; None without any. It may hold a later configuration than `known`."""


def read_configurations(log: ReadableLog, configuration_index: Index | None, committed: Index) -> FoundConfigurations:
    """Find the configuration in effect at index `committed`, and all later ones.

    `configuration_index` is the index of the latest configuration entry in the log, 0 when only a roll has it, `None`
    when it is not known. The nearest roll below is used in place of a damaged entry. Raises `FormatError`."""
    if not log.segments:
        return FoundConfigurations((), None)
    walk = _ConfigurationWalk(log)
    known = walk.run(configuration_index, committed)
    return FoundConfigurations(known, walk.damage)


class _StoredConfiguration(NamedTuple):
    """Configuration read from an entry or a roll."""

    configuration: Configuration
    replaces_index: Index | None
    """Index of the configuration that this one replaces; None when the log does not have it."""


class _ConfigurationWalk:
    """Search for the configurations in one log, which has segments; `run` is called once."""

    def __init__(self, log: ReadableLog) -> None:
        self._log = log
        self.damage: CorruptBatch | None = None

    def run(self, configuration_index: Index | None, committed: Index) -> tuple[Configuration, ...]:
        """Return the configuration in effect at index `committed`, and all later ones, ascending."""
        index = self._find_latest() if configuration_index is None else configuration_index
        found: list[Configuration] = []
        while True:
            at = self._read(index)
            if at is None or (found and at.configuration.index >= found[-1].index):
                break
            found.append(at.configuration)
            if at.configuration.index <= committed or at.replaces_index is None:
                break
            index = at.replaces_index
        return tuple(reversed(found))

    def _find_latest(self) -> Index:
        """Return the index of the latest configuration entry in the last segment, or of the one that its roll names."""
        log = self._log
        roll = self._read_roll(log.active)
        latest = Index(roll.configuration_index) if roll else Index(0)
        index = Index(log.active.base_index)
        while index <= log.last_index:
            try:
                entries = log.read_entries(index, log.last_index, _WALK_BYTES)
            except CorruptBatch as error:
                self._record(error)
                index = Index(index + 1)
                continue
            for row, batch in entries:
                if is_control(batch) and read_control(batch)[0] is ControlKind.CONFIGURATION:
                    latest = Index(row.index)
            index = Index(entries[-1][0].index + 1)
        return latest

    def _read(self, index: Index) -> _StoredConfiguration | None:
        """Return the configuration in the entry at `index`.

        It comes from a roll if the log begins or is compacted above it, or if the entry is damaged."""
        log = self._log
        if index == 0:
            return self._read_from_newest_roll()
        if index < log.first_uncompacted_segment.base_index:
            return self._read_from_roll(index)
        try:
            [(_, batch)] = log.read_entries(index, index, 0)
        except CorruptBatch as error:
            self._record(error)
            return self._read_from_roll(index)
        kind, payload = read_control(batch)
        if kind is ControlKind.GAP:  # a rebuild replaced the damaged entry
            return self._read_from_roll(index)
        if kind is ControlKind.ROLL:
            return _StoredConfiguration(configuration_of_roll(decode_roll(payload)), None)
        return _StoredConfiguration(*decode_configuration(payload, index))

    def _read_from_newest_roll(self) -> _StoredConfiguration | None:
        """Return the configuration of the last readable roll, if there is one."""
        rolls = (self._read_roll(segment) for segment in reversed(self._log.segments))
        return next((_StoredConfiguration(configuration_of_roll(roll), None) for roll in rolls if roll), None)

    def _read_from_roll(self, index: Index) -> _StoredConfiguration | None:
        """Return the configuration of entry `index` from a roll that has it, otherwise from the nearest roll below."""
        best = None
        for segment in self._log.segments:
            roll = self._read_roll(segment)
            if roll and (best is None or roll.configuration_index <= index):
                best = roll
            if roll and roll.configuration_index >= index:
                break
        return _StoredConfiguration(configuration_of_roll(best), None) if best else None

    def _read_roll(self, segment: Segment) -> Roll | None:
        """Return the roll at the beginning of a segment; None if it cannot be read.

        An unreadable roll is recorded as damage, except in the log's first segment."""
        roll = read_roll(segment)
        if roll is None and segment.base_index > 1:
            file, offset = segment.files.log.path, Offset(segment.base_offset)
            self._record(CorruptBatch(file, Position(0), offset, "the segment does not begin with a readable roll"))
        return roll

    def _record(self, damage: CorruptBatch) -> None:
        """Record a damaged entry, if it is the first one."""
        self.damage = self.damage or damage
