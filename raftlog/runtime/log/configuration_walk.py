"""Configurations that a replica starts from, read back from its log.

Each configuration entry names the one that it replaces, so the walk goes from the latest one back to the one that
holds at the commit index; below the first segment the roll with which it begins has the configuration that held there.
Every roll has the configuration at its place, so while the latest entry is not known only the last segment is searched,
and when no entry has it any more, the newest roll does: the first one is older than everything that was compacted.
Called when a group is opened or its log was fetched."""

from typing import NamedTuple

from raftlog.errors import CorruptBatch
from raftlog.raft import Configuration
from raftlog.records import ControlKind, read_control
from raftlog.runtime.log.control_entries import configuration_of_roll, decode_configuration, is_control
from raftlog.storage.readable_log import ReadableLog
from raftlog.storage.recovery import read_roll
from raftlog.storage.roll import decode_roll
from raftlog.types import Index

_WALK_BYTES = 1 << 20


class _StoredConfiguration(NamedTuple):
    configuration: Configuration
    replaces_index: Index | None
    """Index of the configuration that it replaces; None when the log does not have it."""


def read_configurations(
    log: ReadableLog, configuration_index: Index | None, committed: Index
) -> tuple[Configuration, ...]:
    """Return the configuration in effect at index `committed`, and all later ones, ascending.

    `configuration_index` is the latest configuration entry in the log, 0 when only a roll has it, `None` when it is
    not known. Empty for a log without any. When a needed entry is damaged, the nearest roll below takes its place:
    the replica is quarantined until it is repaired. Raises `FormatError`."""
    if not log.segments:
        return ()
    index = _find_latest(log) if configuration_index is None else configuration_index
    found: list[Configuration] = []
    while True:
        at = _read_configuration(log, index)
        if at is None or (found and at.configuration.index >= found[-1].index):
            break
        found.append(at.configuration)
        if at.configuration.index <= committed or at.replaces_index is None:
            break
        index = at.replaces_index
    return tuple(reversed(found))


def _find_latest(log: ReadableLog) -> Index:
    """Return the index of the latest configuration entry in the last segment, or of the one that its roll names."""
    active = log.active
    roll = read_roll(active)
    latest = Index(roll.configuration_index) if roll else Index(0)
    index = Index(active.base_index)
    while index <= log.last_index:
        try:
            entries = log.read_entries(index, log.last_index, _WALK_BYTES)
        except CorruptBatch:
            index = Index(index + 1)
            continue
        for row, batch in entries:
            if is_control(batch) and read_control(batch)[0] is ControlKind.CONFIGURATION:
                latest = Index(row.index)
        index = Index(entries[-1][0].index + 1)
    return latest


def _read_configuration(log: ReadableLog, index: Index) -> _StoredConfiguration | None:
    """Return the configuration in the entry at `index`.

    It comes from a roll if the log begins or is compacted above it, or if the entry is damaged."""
    if index == 0:
        return _read_from_newest_roll(log)
    if index < log.first_uncompacted_segment.base_index:
        return _read_from_roll(log, index)
    try:
        [(_, batch)] = log.read_entries(index, index, 0)
    except CorruptBatch:
        return _read_from_roll(log, index)
    kind, payload = read_control(batch)
    if kind is ControlKind.ROLL:
        return _StoredConfiguration(configuration_of_roll(decode_roll(payload)), None)
    return _StoredConfiguration(*decode_configuration(payload, index))


def _read_from_newest_roll(log: ReadableLog) -> _StoredConfiguration | None:
    """Return the configuration of the last readable roll, if there is one."""
    rolls = (read_roll(segment) for segment in reversed(log.segments))
    return next((_StoredConfiguration(configuration_of_roll(roll), None) for roll in rolls if roll), None)


def _read_from_roll(log: ReadableLog, index: Index) -> _StoredConfiguration | None:
    """Return the configuration of entry `index` from a roll that has it, otherwise that of the nearest roll below."""
    best = None
    for segment in log.segments:
        roll = read_roll(segment)
        if roll and (best is None or roll.configuration_index <= index):
            best = roll
        if roll and roll.configuration_index >= index:
            break
    return _StoredConfiguration(configuration_of_roll(best), None) if best else None
