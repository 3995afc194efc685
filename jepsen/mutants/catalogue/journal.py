"""Mutants of the journal and of a replica's recovery from it (`journal/`, `group_recovery`, `replay`)."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_JOURNAL: Final = ("tests/runtime/test_journal.py", "tests/runtime/test_journal_crashes.py")
_VALID_RANGE: Final = ("tests/runtime/test_journal_valid_range.py",)
_FOLD: Final = ("tests/runtime/test_journal_fold.py", "tests/runtime/test_journal_against_twin.py")
_RECOVERY: Final = ("tests/runtime/test_group_recovery.py", "tests/runtime/test_group_damage.py")


def _journal(name: str, place: str, old: str, new: str, tests: tuple[str, ...], equivalent: str = "") -> Mutant:
    """Return a mutant at `place`, which is module:function."""
    module, _, function = place.partition(":")
    return Mutant(f"journal-{name}", f"raftlog/runtime/{module}.py", function, old, new, tests, equivalent)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # journal
    _journal(
        "failed-sync-counts",
        "journal/journal:Journal._handle_sync",
        "if error:",
        "if False:",
        _JOURNAL,
    ),
    _journal(
        "failed-file-sync-counts",
        "journal/journal:Journal._handle_file_sync",
        "if error:",
        "if False:",
        ("tests/runtime/test_journal_room.py", *_JOURNAL),
    ),
    _journal(
        "two-frames-under-way",
        "journal/journal:Journal._write_next",
        "if self._is_writing or self.failure:",
        "if self.failure:",
        _JOURNAL,
    ),
    _journal(
        "start-before-the-checkpoint-is-durable",
        "journal/journal:Journal._can_move_start",
        " and self._completed.last <= self.durable_sequence",
        "",
        _JOURNAL,
    ),
    _journal(
        "dropped-entries-come-back",
        "journal/journal:Journal._cut_dropped",
        "if cuts:",
        "if False:",
        (*_FOLD, "tests/runtime/test_adversity.py"),
    ),
    _journal(
        "hole-unseen",
        "journal/valid_range:_classify_blocks_after",
        "if run.frame > valid_range.end:",
        "if False:",
        _VALID_RANGE,
    ),
    _journal(
        "bad-block-unseen",
        "journal/valid_range:_check_bad_blocks",
        "if first < min(block + count, reached.stop):",
        "if False:",
        _VALID_RANGE,
    ),
    _journal(
        "peers-memory-ignored",
        "journal/valid_range:find_valid_range",
        "if end <= synced_at_least:",
        "if False:",
        _VALID_RANGE,
    ),
    _journal(
        "any-block-follows",
        "journal/valid_range:_follows",
        "run.first_chain == before.checksum and ",
        "",
        _VALID_RANGE,
    ),
    _journal(
        "block-of-another-place",
        "journal/survey:_survey_blocks",
        "elif block != number:",
        "elif False:",
        (*_VALID_RANGE, "tests/runtime/test_journal_format.py"),
    ),
    _journal(
        "cut-of-the-checkpoint-s-entries",
        "journal/fold:FoldedGroup.cut",
        "self.keep_to = min(self.keep_to, Index(index - 1))",
        "pass",
        _FOLD,
    ),
    _journal("fold-keeps-a-gap", "journal/fold:FoldedGroup.drop_after_gap", "if not self._has_gap:", "if True:", _FOLD),
    _journal(
        "fold-a-second-vote",
        "journal/fold:FoldedGroup.set_hard_state",
        "if term == self.term and self.vote is not None and vote != self.vote:",
        "if False:",
        _FOLD,
    ),
    _journal(
        "fold-forgets-the-voting-position",
        "journal/fold:FoldedGroup.load",
        "LostEnd(*state.voting_position) if state.voting_position else None",
        "None",
        (*_FOLD, "tests/runtime/test_doubt.py"),
    ),
    # recovery of a replica
    _journal(
        "replay-trusts-large-appends",
        "log/replay:Replay._take_row",
        "reason = ReadableLog.batch_error(packed, row, batch)",
        "reason: str | None = None",
        _RECOVERY,
    ),
    _journal(
        "damage-hides-a-tail",
        "log/group_recovery:GroupRecovery._finish",
        "self._find_voting_position() if self._lost else None",
        "None",
        _RECOVERY,
    ),
)
