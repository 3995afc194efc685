"""Mutants of segments, logs and their recovery (`raftlog/storage`)."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_LONE: Final = ("tests/storage/test_recovery.py", "tests/storage/test_adversity.py")
_LISTED: Final = (*_LONE, "tests/storage/test_log_against_list.py")
_REPLICA: Final = ("tests/storage/test_replica_log.py", "tests/runtime/test_group_recovery.py")
_DAMAGED: Final = ("tests/runtime/test_group_damage.py", "tests/runtime/test_rebuilding.py")
_COMPACTION: Final = ("tests/storage/test_compaction.py",)


def _storage(name: str, place: str, old: str, new: str, tests: tuple[str, ...], equivalent: str = "") -> Mutant:
    """`place` is module:function."""
    module, _, function = place.partition(":")
    return Mutant(f"storage-{name}", f"raftlog/storage/{module}.py", function, old, new, tests, equivalent)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # cuts, trims and refused appends
    _storage(
        "cut-stays-visible",
        "segmented_log:SegmentedLog._settle_cut",
        "self.durable_offset = min(self.durable_offset, self.next_offset)",
        "pass",
        (*_LISTED, *_REPLICA),
    ),
    _storage(
        "cut-stays-durable",
        "segmented_log:SegmentedLog._settle_cut",
        "self.durable_index = min(self.durable_index, self.last_index)",
        "pass",
        (*_LISTED, *_REPLICA),
    ),
    _storage(
        "cut-keeps-bytes",
        "segment:Segment.cut_to",
        "self.files.log.truncate(min(first.position, self._written_position))",
        "pass",
        _REPLICA,
    ),
    _storage("refused-append-in-time-index", "segment:Segment.take_back", "self.times.drop_from(rows)", "pass", _LONE),
    # what is durable
    _storage(
        "new-file-without-its-name",
        "segmented_log:SegmentedLog.begin_segment",
        "self._directory_dirty = True",
        "pass",
        _LISTED,
    ),
    _storage(
        "checkpoint-without-index-files",
        "segmented_log:SegmentedLog.changed_since_checkpoint",
        "(segment.files.index, segment.index_changes),",
        "",
        _REPLICA,
    ),
    _storage(
        "large-append-without-its-name",
        "segmented_log:SegmentedLog.unsynced_entries",
        "changed_files(files, self.path, self.directory_changes)",
        "changed_files(files, self.path, Changes())",
        ("tests/runtime/test_adversity.py", "tests/storage/test_replica_log.py"),
    ),
    _storage(
        "late-flush-counts",
        "flushing:Flusher._flushed",
        "if run != self._run or target is None:",
        "if target is None:",
        _LONE,
    ),
    _storage(
        "settled-without-sync",
        "flushing:Flusher.settle",
        "self._disk.sync(*self._log.sync_targets())",
        "pass",
        _LISTED,
    ),
    # reading
    _storage(
        "read-undurable",
        "reading:ReadableLog.read",
        "end = self.durable_offset if end_offset is None",
        "end = self.next_offset if end_offset is None",
        _LISTED,
    ),
    _storage(
        "read-one-too-many",
        "reading:ReadableLog._rows_within",
        "if row.offset >= end_offset:",
        "if row.offset > end_offset:",
        _LISTED,
    ),
    _storage(
        "look-up-undurable",
        "reading:ReadableLog._offset_for_timestamp",
        "if row.index > self.durable_index:",
        "if False:",
        _LISTED,
    ),
    _storage(
        "serve-a-wrong-crc",
        "reading:ReadableLog.why_corrupt",
        "if not crc_matches(view, read_header(view)):",
        "if False:",
        _LONE,
    ),
    _storage(
        "serve-a-wrong-header",
        "reading:ReadableLog.why_corrupt",
        "if not row_matches(row_bytes, view[:HEADER_SIZE]):",
        "if False:",
        _LONE,
    ),
    _storage(
        "repair-with-other-bytes",
        "segmented_log:SegmentedLog.repair_batch",
        "why = self.why_corrupt(segment.row_bytes(number, 1), row, batch)",
        'why: str | None = ""',
        ("tests/storage/test_replica_log.py",),
    ),
    # recovery of a lone log
    _storage(
        "synced-cut-as-torn",
        "recovery:Recovery._scan",
        "if not self._synced_behind(segment) and looks_torn(segment, position, why):",
        "if looks_torn(segment, position, why):",
        _LONE,
    ),
    _storage(
        "lost-tail-unseen",
        "recovery:Recovery._scan",
        "if bad is None and not self._synced_behind(segment):",
        "if bad is None:",
        _LONE,
    ),
    _storage(
        "lost-below-the-checkpoint-unseen",
        "recovery:Recovery._synced_behind",
        " and segment.end_position < checkpoint.end_position:",
        " and False:",
        _LONE,
    ),
    # checkpoints of a lone log
    _storage(
        "checkpoint-before-its-rows",
        "checkpointer:Checkpointer.maybe_start",
        "self._index_files(), []",
        "[], []",
        _LISTED,
    ),
    _storage(
        "log-start-not-synced",
        "checkpointer:Checkpointer.store",
        "self._disk.sync([self._slots.file])",
        "pass",
        _LISTED,
    ),
    _storage(
        "one-slot",
        "checkpoint:CheckpointFile.write",
        "checkpoint.sequence % 2 * SLOT_SIZE",
        "0",
        _LISTED,
    ),
    _storage(
        "repair-trusts-the-old-checkpoint",
        "repair:repair_log",
        "vouch_for_nothing(disk, path, first)",
        "pass",
        _LONE,
    ),
    _storage("repair-not-synced", "repair:_rewrite", "disk.sync([new])", "pass", _LONE),
    # retention
    _storage(
        "retention-needs-both-bounds",
        "retention:retained_from",
        "if not is_old and excess < segment.end_position:",
        "if not is_old or excess < segment.end_position:",
        _LONE,
    ),
    # replicas: taking files over
    _storage(
        "adopt-a-wrong-crc",
        "adoption:Adoption._batch_at",
        "if header.last_offset_delta < -1 or not crc_matches(batch, header):",
        "if header.last_offset_delta < -1:",
        (*_REPLICA, *_DAMAGED),
    ),
    _storage(
        "adopt-a-longer-file",
        "adoption:Adoption._adopt_closed",
        "row.end != self._size or ",
        "",
        (*_REPLICA, *_DAMAGED),
    ),
    # compaction
    _storage(
        "tombstone-goes-with-its-record",
        "compaction:Compaction.__init__",
        "min(tombstones_to, clean_to(log))",
        "tombstones_to",
        _COMPACTION,
    ),
    _storage(
        "newest-record-goes",
        "compaction:Compaction._flags",
        "at is None or at <= record.offset",
        "at is None or at < record.offset",
        _COMPACTION,
    ),
    _storage("compact-damage", "compaction:Compaction._batches", "if why is not None:", "if False:", _COMPACTION),
    _storage(
        "compacted-file-not-synced",
        "compaction:Compaction._put",
        "yield Step(files=tuple(staged.files))",
        "yield Step()",
        ("tests/storage/test_compaction.py", "tests/runtime/test_compacting.py"),
    ),
    _storage(
        "unlink-before-the-name-is-synced",
        "compaction:Compaction._put",
        "        try:\n            yield Step(directories=(self.log.path,))",
        "        try:\n            yield Step()",
        ("tests/storage/test_compaction.py", "tests/runtime/test_compacting.py"),
    ),
)
