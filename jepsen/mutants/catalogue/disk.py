"""Mutants between a replica and its disk: journal, checkpoints, cuts, trims, segments."""

from typing import Final

from jepsen.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        "disk-complete-unsynced-checkpoint",
        "raftlog/runtime/process/checkpoints.py",
        "Checkpoints._sync_next",
        "        elif self._number is not None:",
        "        if self._number is not None:",
        ("tests/runtime/test_checkpoints.py",),
    ),
    Mutant(
        "disk-cut-spares-large-appends",
        "raftlog/runtime/process/persister.py",
        "Persister.persist",
        "            self._larges.cut(group, ready.cut_to)\n",
        "",
        ("tests/runtime/test_cuts.py",),
    ),
    Mutant(
        "disk-cut-before-it-is-durable",
        "raftlog/runtime/process/persister.py",
        "Persister._advance",
        " and group.cut_sequence <= sequence",
        "",
        ("tests/runtime/test_cuts.py",),
    ),
    Mutant(
        "disk-repeated-cut-without-its-row",
        "raftlog/storage/segmented_log.py",
        "SegmentedLog.cut_to_index",
        "self._row_of_cut = row",
        "self._row_of_cut = None",
        ("tests/runtime/test_cuts.py",),
    ),
    Mutant(
        "disk-trim-before-it-is-durable",
        "raftlog/runtime/process/persister.py",
        "Persister.trim",
        "self._wait(self._last_sequence, self._settle_trim, (group, offset))",
        "self._settle_trim((group, offset), self._last_sequence)",
        ("tests/replica/test_committed_trims.py",),
    ),
    Mutant(
        "disk-journal-file-without-its-name",
        "raftlog/runtime/journal/journal.py",
        "Journal._write_next",
        "directories = [self.path] if placed.unsynced else []",
        "directories: list[str] = []",
        ("tests/runtime/test_journal_crashes.py",),
    ),
    Mutant(
        "disk-compact-the-log-start-away",
        "raftlog/storage/compaction.py",
        "Compaction._is_kept",
        "offset >= self.log.log_start_offset",
        "offset > self.log.log_start_offset",
        ("tests/storage/test_compaction.py",),
    ),
    Mutant(
        "disk-retain-less",
        "raftlog/storage/retention.py",
        "find_retained_start",
        "excess < segment.end_position",
        "excess <= 0",
        ("tests/replica/test_retention.py",),
    ),
    Mutant(
        "disk-roll-late",
        "raftlog/runtime/replica/rolls.py",
        "Rolls.is_due",
        "self.ahead_bytes + size > limits.segment_bytes",
        "self.ahead_bytes > limits.segment_bytes",
        ("tests/replica/test_committed_trims.py",),
    ),
    Mutant(
        "disk-write-in-another-term",
        "partitions/coordinator/log.py",
        "LogWriter.leads",
        " and replica.group.core.term == self._term",
        "",
        ("tests/groups/test_writer.py",),
    ),
)
