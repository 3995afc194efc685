"""Mutants of segments, logs and their recovery (`raftlog/storage`)."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_LONE: Final = ("tests/storage/test_recovery.py", "tests/storage/test_adversity.py")
_LISTED: Final = (*_LONE, "tests/storage/test_log_against_list.py")
_POWER: Final = ("tests/storage/test_power_loss.py",)
_LIMITS: Final = ("tests/storage/test_recovery_limits.py",)
_ADOPTION: Final = ("tests/storage/test_adoption.py",)
_REPLICA: Final = ("tests/storage/test_replica_log.py", "tests/runtime/test_group_recovery.py")
_DAMAGED: Final = ("tests/runtime/test_group_damage.py", "tests/runtime/test_rebuild.py")
_COMPACTION: Final = ("tests/storage/test_compaction.py",)


def _storage(name: str, place: str, old: str, new: str, tests: tuple[str, ...], equivalent: str = "") -> Mutant:
    """Return a mutant at `place`, which is module:function."""
    module, _, function = place.partition(":")
    return Mutant(f"storage-{name}", f"raftlog/storage/{module}.py", function, old, new, tests, equivalent)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # cuts, trims and refused appends
    _storage(
        "refused-append-comes-back",
        "segmented_log:SegmentedLog.roll_back",
        "self.disk.sync([self.active.files.log], [self.path])",
        "pass",
        _POWER,
    ),
    _storage(
        "cut-comes-back",
        "segmented_log:SegmentedLog.cut",
        "self.disk.sync([segment.files.log], [self.path])",
        "pass",
        _POWER,
    ),
    _storage(
        "cut-log-before-index",
        "segmented_log:SegmentedLog.cut",
        "self.disk.sync([segment.files.index])",
        "pass",
        _POWER,
    ),
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
    _storage(
        "trim-to-an-undurable-roll",
        "segmented_log:SegmentedLog.segments_below",
        " and newer.base_index <= self.durable_index",
        "",
        _LISTED,
        equivalent="Both callers ask below rolls that are durable: `LoneLog.trim` goes no further than the segment "
        "of the checkpoint, whose rows are published, and `end_of_leftovers` no further than "
        "the applied index.",
    ),
    _storage("refused-append-in-time-index", "segment:Segment.roll_back", "self.times.drop_from(rows)", "pass", _LONE),
    # durability
    _storage(
        "new-file-without-its-name",
        "segmented_log:SegmentedLog.begin_segment",
        "self._directory_dirty = True",
        "pass",
        _LISTED,
    ),
    _storage(
        "name-counts-as-synced-early",
        "segmented_log:SegmentedLog.mark_durable",
        "if index == self.last_index:",
        "if True:",
        _POWER,
    ),
    _storage(
        "durable-falls",
        "segmented_log:SegmentedLog.mark_durable",
        "if index > self.durable_index:",
        "if True:",
        ("tests/storage/test_replica_log.py",),
    ),
    _storage(
        "checkpoint-without-index-files",
        "segmented_log:SegmentedLog.list_changes_since_checkpoint",
        "(segment.files.index, segment.index_changes),",
        "",
        _REPLICA,
    ),
    _storage(
        "large-append-without-its-name",
        "segmented_log:SegmentedLog.list_unsynced_files",
        "list_changed_files(files, self.path, self.directory_changes)",
        "list_changed_files(files, self.path, Changes())",
        ("tests/runtime/test_adversity.py", "tests/storage/test_replica_log.py"),
    ),
    _storage(
        "late-flush-counts",
        "flusher:Flusher._complete_flush",
        "if run != self._run or target is None:",
        "if target is None:",
        _LONE,
    ),
    _storage(
        "settled-without-sync",
        "flusher:Flusher.flush_and_wait",
        "self._disk.sync(*self._log.sync_targets())",
        "pass",
        _LISTED,
    ),
    # reading
    _storage(
        "read-undurable",
        "readable_log:ReadableLog.read",
        "end = self.durable_offset if end_offset is None",
        "end = self.next_offset if end_offset is None",
        _LISTED,
    ),
    _storage(
        "read-one-too-many",
        "readable_log:ReadableLog._select_rows",
        "if row.offset >= end_offset:",
        "if row.offset > end_offset:",
        _LISTED,
    ),
    _storage(
        "look-up-undurable",
        "readable_log:ReadableLog._offset_for_timestamp",
        "if row.index > self.durable_index:",
        "if False:",
        _LISTED,
    ),
    _storage(
        "serve-a-wrong-crc",
        "readable_log:ReadableLog.batch_error",
        "if not crc_matches(view, read_header(view)):",
        "if False:",
        _LONE,
    ),
    _storage(
        "serve-a-wrong-header",
        "readable_log:ReadableLog.batch_error",
        "if not row_matches(row_bytes, view[:HEADER_SIZE]):",
        "if False:",
        _LONE,
    ),
    _storage(
        "reader-amid-a-cut",
        "readable_log:ReadableLog._retry_until_undisturbed",
        "            else:\n                if generation == self.generation:",
        "            else:\n                if True:",
        ("tests/storage/test_replica_log.py",),
    ),
    _storage(
        "repair-with-other-bytes",
        "segmented_log:SegmentedLog.repair_batch",
        "reason = self.batch_error(segment.row_bytes(number, 1), row, batch)",
        'reason: str | None = ""',
        ("tests/storage/test_replica_log.py",),
    ),
    _storage(
        "rebuild-where-it-does-not-end",
        "segmented_log:SegmentedLog.rebuild_entry",
        "elif is_confirmed and (row.end, header.next_offset) != follows:",
        "elif False:",
        ("tests/storage/test_replica_log.py",),
    ),
    # recovery of a lone log
    _storage(
        "damage-cut-as-torn",
        "recovery:Recovery._scan",
        "if not self._is_end_synced(segment) and looks_torn(segment, position, reason):",
        "if not self._is_end_synced(segment):",
        _LIMITS,
    ),
    _storage(
        "synced-cut-as-torn",
        "recovery:Recovery._scan",
        "if not self._is_end_synced(segment) and looks_torn(segment, position, reason):",
        "if looks_torn(segment, position, reason):",
        _LONE,
    ),
    _storage(
        "lost-tail-unseen",
        "recovery:Recovery._scan",
        "if bad is None and not self._is_end_synced(segment):",
        "if bad is None:",
        _LONE,
    ),
    _storage(
        "lost-below-the-checkpoint-unseen",
        "recovery:Recovery._is_end_synced",
        " and segment.end_position < checkpoint.end_position:",
        " and False:",
        _LONE,
    ),
    _storage(
        "lost-before-a-newer-file-unseen",
        "recovery:Recovery._is_end_synced",
        "return newer is not None and newer != segment.next_offset and self._was_synced(newer)",
        "return False",
        _LIMITS,
    ),
    _storage(
        "synced-segment-set-aside",
        "recovery:Recovery._was_synced",
        "return is_in_checkpoint or any(self._has_first_row(newer) for newer in self._bases if newer >= base)",
        "return vouched",
        _LIMITS,
    ),
    _storage(
        "missing-first-segment-unseen",
        "recovery:Recovery.run",
        "if self.checkpoint and self._bases and self._bases[0] > self.checkpoint.log_start_offset:",
        "if False:",
        _LIMITS,
    ),
    _storage(
        "rows-before-their-sync",
        "recovery:Recovery._publish",
        "self.disk.sync([segment.files.log], [self.path])",
        "pass",
        _POWER,
    ),
    _storage(
        "opened-without-sync",
        "recovery:Recovery._settle",
        "self.disk.sync([file for segment in touched for file in segment.files], [self.path])",
        "pass",
        _POWER,
    ),
    _storage(
        "page-cache-after-a-failed-sync",
        "recovery:Recovery._scan_sound",
        "if self._write_again:",
        "if False:",
        _POWER,
    ),
    _storage(
        "adopt-a-row-of-another-entry",
        "recovery:Recovery._adopt_checked",
        "if len(head) < HEADER_SIZE or not row_matches(last, head):",
        "if len(head) < HEADER_SIZE:",
        _LIMITS,
    ),
    _storage(
        "any-offset-follows",
        "recovery:_header_error",
        "if header.base_offset != next_offset:",
        "if False:",
        _LIMITS,
    ),
    # checkpoints of a lone log
    _storage(
        "checkpoint-before-its-rows",
        "checkpointer:Checkpointer.start_if_due",
        "self._list_index_files(), []",
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
    _storage("torn-slot-counts", "checkpoint:_read_slot", "if intact and magic", "if magic", _LIMITS),
    _storage(
        "repair-lowers-the-log-start",
        "checkpoint:store_empty_checkpoint",
        "max(newest.log_start_offset, first_offset)",
        "first_offset",
        _LIMITS,
    ),
    _storage(
        "repair-trusts-the-old-checkpoint",
        "repair:repair_log",
        "store_empty_checkpoint(disk, path, first)",
        "pass",
        _LONE,
    ),
    _storage("repair-not-synced", "repair:_rewrite", "disk.sync([new])", "pass", _LONE),
    # retention
    _storage(
        "retention-trusts-a-client-s-clock",
        "retention:find_retained_start",
        "max(segment.times.max_timestamp, newer.created_ms)",
        "segment.times.max_timestamp",
        _POWER,
    ),
    _storage(
        "retention-needs-both-bounds",
        "retention:find_retained_start",
        "if not is_old and excess < segment.end_position:",
        "if not is_old or excess < segment.end_position:",
        _LONE,
    ),
    _storage(
        "retention-keeps-a-segment-too-many",
        "retention:find_retained_start",
        "excess < segment.end_position",
        "excess <= segment.end_position",
        ("tests/replica/test_retention_rules.py",),
    ),
    _storage(
        "retention-a-millisecond-early",
        "retention:find_retained_start",
        "> config.retention_ms",
        ">= config.retention_ms",
        ("tests/replica/test_retention_rules.py",),
    ),
    # replicas: taking files over
    _storage(
        "adopt-any-term",
        "adoption:Adoption._read_next_batch",
        "if not self._term <= header.leader_epoch <= self._term_max:",
        "if False:",
        _ADOPTION,
    ),
    _storage(
        "adopt-a-wrong-crc",
        "adoption:Adoption._read_batch",
        "if header.last_offset_delta < -1 or not crc_matches(batch, header):",
        "if header.last_offset_delta < -1:",
        ("tests/storage/test_adoption.py",),
    ),
    _storage(
        "adopt-a-short-file",
        "adoption:Adoption._adopt_up_to_entry",
        "if self._size < row.end or (header is None and self._end_row is None):",
        "if header is None and self._end_row is None:",
        _ADOPTION,
    ),
    _storage(
        "adopt-a-longer-file",
        "adoption:Adoption._adopt_closed",
        "row.end != self._size or ",
        "",
        (*_REPLICA, *_DAMAGED),
    ),
    _storage(
        "believe-a-rotten-header",
        "adoption:Adoption._check_row",
        "return _DISAGREE",
        "return None",
        _ADOPTION,
    ),
    # compaction
    _storage(
        "tombstone-goes-with-its-record",
        "compaction:Compaction.__init__",
        "min(tombstones_to, find_clean_end(log))",
        "tombstones_to",
        _COMPACTION,
    ),
    _storage(
        "tombstone-goes-early",
        "compaction:Compaction._is_kept",
        "(is_tombstone and offset < self._tombstones_to)",
        "(is_tombstone and offset <= self._tombstones_to)",
        _COMPACTION,
    ),
    _storage(
        "last-record-below-the-mark-goes",
        "compaction:Compaction._is_kept",
        " or offset == self._mark - 1",
        "",
        _COMPACTION,
        equivalent="It is the newest of its key below the mark, and no tombstone below `tombstones_to`, which is at "
        "most `find_clean_end` and so below the mark while there is anything to do. A log start above it takes "
        "its whole file.",
    ),
    _storage(
        "records-behind-the-part-go",
        "compaction:Compaction._is_kept",
        "offset >= self._end or ",
        "",
        _COMPACTION,
        equivalent="The index of keys ends before them, so it names none of them as replaced; they are not below "
        "`tombstones_to`, which is at most `find_clean_end`, and not below the log start, unless their file "
        "goes with it.",
    ),
    _storage(
        "newest-record-goes",
        "compaction:Compaction._select_records",
        "at is None or at <= record.offset",
        "at is None or at < record.offset",
        _COMPACTION,
    ),
    _storage("compact-damage", "compaction:Compaction._batches", "if reason is not None:", "if False:", _COMPACTION),
    _storage(
        "compacted-file-not-synced",
        "compaction:Compaction._replace_segments",
        "yield CompactionStep(files=tuple(staged.files))",
        "yield CompactionStep()",
        ("tests/storage/test_compaction.py", "tests/runtime/test_compactor.py"),
    ),
    _storage(
        "unlink-before-the-name-is-synced",
        "compaction:Compaction._replace_segments",
        "        try:\n            yield CompactionStep(directories=(self.log.path,))",
        "        try:\n            yield CompactionStep()",
        ("tests/storage/test_compaction.py", "tests/runtime/test_compactor.py"),
    ),
    _storage(
        "unreadable-batch-goes",
        "compaction:Compaction._keep_records",
        "return bytes(batch) if header.next_offset > self.log.log_start_offset else None",
        "return None",
        _COMPACTION,
    ),
)
