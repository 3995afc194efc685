"""The fold of operations: gaps, cuts, hard state, voting positions, and the known configuration entry."""

import pytest

from raftlog.records import NewRecord, build_batch
from raftlog.runtime.journal.fold import FoldedGroup
from raftlog.runtime.journal.operations import (
    Append,
    AppendIds,
    Created,
    Cut,
    GroupState,
    Install,
    LostEnd,
    Mark,
    Operation,
    Removed,
    VotingPosition,
)
from raftlog.storage.roll import RollMember
from raftlog.types import Index, Offset, Term
from tests.runtime.journal_twin import DISK, end_of, row_of
from tests.runtime.opened_journal import ONE, append_one, create_journal, make_state, reopen_after_power_loss


def test_entries_without_their_predecessor_are_dropped() -> None:
    """Entries 2 and 3 follow a large entry 1 whose id was never journaled; later another 1 and 2 are appended."""
    disk, journal, _ = create_journal()
    append_one(journal, 2)
    append_one(journal, 3)
    journal.flush()
    disk.complete_all()
    journal, fold = reopen_after_power_loss(disk)
    assert (fold.groups[ONE].last_index, fold.groups[ONE].dropped) == (0, 2)
    other = bytes(build_batch([NewRecord(b"another")]))
    append_one(journal, 1, batch=other)
    journal.append([AppendIds(ONE, Index(2), row_of(2, 1))])
    journal.flush()
    disk.complete_all()
    _, fold = reopen_after_power_loss(disk)
    assert fold.groups[ONE].last_index == 2
    one, two = fold.groups[ONE].extents()
    assert fold.read_batches(one) == [other]
    assert fold.read_rows(two) == row_of(2, 1)


def test_a_cut_inside_an_append_leaves_its_first_batches() -> None:
    disk, journal, _ = create_journal()
    batches = [bytes(build_batch([NewRecord(bytes([number]) * 2000)])) for number in range(6)]
    journal.append([Append(ONE, Index(1), Index(6), batches), Cut(ONE, Index(4))])
    journal.flush()
    disk.complete_all()
    _, fold = reopen_after_power_loss(disk)
    (extent,) = fold.groups[ONE].extents()
    assert fold.read_batches(extent) == batches[:3]


def test_a_cut_below_the_end_of_a_checkpoint_shortens_the_log() -> None:
    folded = FoldedGroup(ONE)
    folded.restart_at(end_of(dict.fromkeys(range(1, 6), b"entry")), 0, Index(0))
    assert folded.cut(3) is None
    assert (folded.keep_to, folded.last_index) == (2, 2)


def test_terms_never_fall_and_a_term_has_one_vote() -> None:
    group = FoldedGroup(ONE)
    assert group.set_hard_state(3, None) is None
    assert group.set_hard_state(3, RollMember(1, DISK)) is None
    assert group.set_hard_state(3, RollMember(1, DISK)) is None
    assert group.set_hard_state(3, RollMember(2, DISK)) == "two votes in term 3"
    assert group.set_hard_state(2, None) == "term 2 follows term 3"
    assert group.set_hard_state(4, None) is None


# what a checkpoint says, and what happens to it


END = end_of({9: b""})
assert END is not None
LOST = LostEnd(Index(12), Term(3))


def fold_after(*operations: Operation, configuration_index: int = 5) -> FoldedGroup:
    """Return the fold of group ONE after a checkpoint of nine entries and these operations."""
    disk, journal, _ = create_journal()
    said = make_state(ONE, 9)._replace(configuration_index=Index(configuration_index), voting_position=LOST)
    journal.checkpoint([said])
    disk.complete_all()
    journal.append(operations)
    journal.flush()
    disk.complete_all()
    return reopen_after_power_loss(disk)[1].groups[ONE]


@pytest.mark.parametrize(
    ("operations", "configuration_index"),
    [
        ((), 5),
        ((Cut(ONE, Index(6)),), 5),
        ((Cut(ONE, Index(5)),), None),
        ((Cut(ONE, Index(1)),), None),
        ((Install(ONE, Offset(0), END),), None),
        ((Created(ONE, Offset(0), END),), 0),
        ((Removed(ONE),), 0),
    ],
)
def test_the_known_configuration_entry_follows_cuts_and_appends(
    operations: tuple[Operation, ...], configuration_index: int | None
) -> None:
    assert fold_after(*operations).configuration_index == configuration_index


def test_a_configuration_in_a_roll_is_known_after_any_cut() -> None:
    assert fold_after(Cut(ONE, Index(1)), configuration_index=0).configuration_index == 0


@pytest.mark.parametrize(
    ("operations", "voting_position"),
    [
        ((), LOST),
        ((Cut(ONE, Index(1)), Install(ONE, Offset(0), END)), LOST),
        ((VotingPosition(ONE, Index(4), Term(2)),), LostEnd(Index(4), Term(2))),
        ((VotingPosition(ONE, Index(0), Term(0)),), None),
        ((Removed(ONE), Created(ONE, Offset(0), None)), LOST),
    ],
)
def test_a_voting_position_stays_until_it_is_lifted(
    operations: tuple[Operation, ...], voting_position: LostEnd | None
) -> None:
    assert fold_after(*operations).voting_position == voting_position


@pytest.mark.parametrize(
    "wrong",
    [
        VotingPosition(ONE, Index(0), Term(1)),
        make_state(ONE, 9)._replace(configuration_index=Index(10)),
        GroupState(ONE, Mark.NONE, Term(1), None, Offset(0), None, Index(0), Index(1)),
    ],
)
def test_invalid_groups_are_not_written(wrong: Operation) -> None:
    _, journal, _ = create_journal()
    with pytest.raises(AssertionError):
        journal.append([wrong])
