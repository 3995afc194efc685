"""Keyed replica log with a plain list of its records, and compaction run to its end or to some step."""

import uuid
from collections.abc import Sequence
from random import Random

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.records import (
    Compression,
    ControlKind,
    NewRecord,
    build_batch,
    build_control_batch,
    read_header,
    read_records,
    stamp,
)
from raftlog.storage.compaction import Compaction, CompactionBounds
from raftlog.storage.roll import Roll, encode_roll
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Offset, Term

PATH = "/data/t/0"
GROUP = uuid.UUID(int=5)
BOUNDS = CompactionBounds(segment_bytes=4000, segment_rows_max=1000)
Kept = tuple[int, bytes | None, bytes | None, int]
"""Offset, key, value, timestamp of a record."""


class KeyedLog:
    """Replica log with keys; `records` has all appended records, of which record n has offset n."""

    def __init__(self, seed: int = 1) -> None:
        self.disk = SimulatedDisk(Random(seed))
        self.disk.make_directory(PATH)
        self.disk.sync([], ["/", "/data", "/data/t"])
        self.log = SegmentedLog(self.disk, PATH, (), Offset(0))
        self.records: list[Kept] = []
        self.term = 1
        self.mark = Offset(0)
        self.tombstones_to = Offset(0)
        self.roll()

    def roll(self) -> None:
        log = self.log
        previous = log.row_at(log.last_index).term if log.segments else 0
        roll = Roll(GROUP, log.last_index + 1, previous, 0, self.mark or -1, 1000 + len(self.records))
        batch = build_control_batch(ControlKind.ROLL, encode_roll(roll), roll.created_ms, next_offset=log.next_offset)
        stamp(batch, log.next_offset, Term(self.term))
        log.begin_segment(bytes(batch), read_header(batch), roll, Term(self.term))

    def control(self) -> None:
        batch = build_control_batch(ControlKind.NO_OP, b"\x01", 5, next_offset=self.log.next_offset)
        stamp(batch, self.log.next_offset, Term(self.term))
        self.log.append_stamped(bytes(batch), read_header(batch))

    def append(
        self, pairs: Sequence[tuple[bytes | None, bytes | None]], compression: Compression = Compression.NONE
    ) -> None:
        """Append a batch of these keys and values; the timestamps rise by 1 ms from 10 s."""
        first = len(self.records)
        stamped = [(first + at, key, value, 10_000 + first + at) for at, (key, value) in enumerate(pairs)]
        batch = build_batch([NewRecord(value, key, time) for _, key, value, time in stamped], compression)
        stamp(batch, self.log.next_offset, Term(self.term))
        self.log.append_stamped(bytes(batch), read_header(batch))
        self.records += stamped

    def settle(self) -> None:
        """Write and sync all entries."""
        self.log.write()
        self.log.mark_durable(self.log.last_index)
        changed = self.log.list_changes_since_checkpoint()
        self.disk.sync(changed.files, changed.directories)
        changed.mark_synced()

    def compaction(self, bounds: CompactionBounds = BOUNDS) -> Compaction:
        """Compact below the last roll; a new roll also lets tombstones below the previous mark be removed."""
        self.settle()
        if self.log.active.base_offset > self.mark:
            self.tombstones_to, self.mark = self.mark, Offset(self.log.active.base_offset)
        return Compaction(self.log, self.mark, self.tombstones_to, bounds)

    def compaction_below(self, mark: Offset, bounds: CompactionBounds = BOUNDS) -> Compaction:
        """Compact below this mark; tombstones below the previous one may be removed."""
        self.settle()
        if mark > self.mark:
            self.tombstones_to, self.mark = self.mark, mark
        return Compaction(self.log, self.mark, self.tombstones_to, bounds)

    def compact(self, bounds: CompactionBounds = BOUNDS) -> Compaction:
        compaction = self.compaction(bounds)
        for step in compaction.run():
            self.disk.sync(step.files, step.directories)
        return compaction

    # what must be there

    def expected_records(self) -> list[Kept]:
        """Return the records after compaction.

        Above the mark all, below it the newest of each key and records without a key."""
        newest = {key: offset for offset, key, _, _ in self.records[: self.mark]}
        return [
            record
            for record in self.records
            if record[0] >= self.mark - 1
            or record[1] is None
            or (newest[record[1]] == record[0] and (record[2] is not None or record[0] >= self.tombstones_to))
        ]


def read_all(log: SegmentedLog, offset: int = 0, max_bytes: int = 700) -> list[Kept]:
    """Read every record from `offset` on, as a consumer does; no answer before the end may be empty."""
    found: list[Kept] = []
    while offset < log.durable_offset:
        batches = log.read(offset, max_bytes)
        if not batches:
            break
        for batch in batches:
            found += [
                (each.offset, each.key, each.value, each.timestamp)
                for each in read_records(batch)
                if each.offset >= offset
            ]
        offset = read_header(batches[-1]).next_offset
    return found
