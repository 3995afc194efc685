"""The journal's space: full disks, bounds of waiting operations, admission before the append, the reserve."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import InvalidArgument, LogClosed, Overloaded, RaftlogError, StorageFull, SyncFailed
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.journal.files import FILL_BLOCKS_MIN, JournalFile, JournalFiles
from raftlog.runtime.journal.operations import Append, Cut, JournaledHardState
from raftlog.types import Index, Term
from tests.runtime.journal_twin import SMALL
from tests.runtime.opened_journal import (
    BATCH,
    ONE,
    TWO,
    Opened,
    append_one,
    create_journal,
    fill,
    make_state,
    reopen_after_power_loss,
)


def test_a_full_disk_refuses_entries_and_leaves_room_for_votes_and_a_checkpoint() -> None:
    capacity = 3 * SMALL.file_bytes
    opened = create_journal(capacity=capacity)
    disk, journal, _ = opened
    index = fill_until_full(opened)
    assert index > 40
    assert journal.is_checkpoint_due
    journal.append([JournaledHardState(TWO, Term(1), None)])
    journal.flush()
    journal.checkpoint([make_state(ONE, index - 1), make_state(TWO, 1)])
    disk.complete_all()
    index = fill(opened, index, 10)
    _, fold = reopen_after_power_loss(disk)
    assert (fold.groups[ONE].last_index, fold.groups[TWO].term) == (index - 1, 1)


def test_a_refused_call_changes_nothing() -> None:
    opened = create_journal(capacity=3 * SMALL.file_bytes)
    disk, journal, _ = opened
    index = 1
    batches = [BATCH] * 12
    try:
        while True:
            journal.append(
                [JournaledHardState(TWO, Term(index), None), Append(ONE, Index(index), Index(index + 11), batches)]
            )
            index += 12
            journal.flush()
            disk.complete_all()
    except StorageFull as refusal:
        assert "the disk is full" in str(refusal)  # noqa: PT017  # the loop counts what was taken before it
    assert journal.is_idle
    assert journal.pending_bytes == 0
    _, fold = reopen_after_power_loss(disk)
    assert (fold.groups[ONE].last_index, fold.groups[TWO].term) == (index - 1, index - 12)


def fill_until_full(opened: Opened, index: int = 1) -> int:
    """Append until the disk is full; return the index after the last accepted entry."""
    while True:
        try:
            index = fill(opened, index, 1)
        except StorageFull:
            return index


@settings(max_examples=20)
@given(spare=st.integers(0, 40))
def test_a_journal_continues_after_a_full_disk_has_space(spare: int) -> None:
    opened = create_journal(capacity=2 * SMALL.file_bytes + spare * 4096)
    index = 1
    for _ in range(5):
        before, index = index, fill_until_full(opened, index)
        assert index > before
        opened.journal.checkpoint([make_state(ONE, index - 1)])
        opened.disk.complete_all()
    _, fold = reopen_after_power_loss(opened.disk)
    assert fold.groups[ONE].last_index == index - 1


def test_a_new_file_whose_sync_fails_ends_the_journal() -> None:
    """Otherwise a frame would be written into a file whose name is not durable."""
    disk, journal, _ = create_journal()
    for index in range(1, 400):
        append_one(journal, index)
        journal.flush()
        disk.complete_next()
        if disk.pending_syncs:
            break
    disk.fail_sync()
    disk.complete_next()
    assert isinstance(journal.failure, SyncFailed)
    with pytest.raises(SyncFailed):
        append_one(journal, 400)


# bounds


def test_waiting_operations_are_bounded_with_a_reserve_for_votes() -> None:
    _, journal, _ = create_journal(replace(SMALL, pending_bytes_max=50_000))
    for index in range(1, 46):
        append_one(journal, index)
    with pytest.raises(Overloaded):
        append_one(journal, 46)
    assert 49_000 < journal.pending_bytes <= 50_000
    journal.append([JournaledHardState(TWO, Term(1), None)])


def test_a_journal_without_checkpoints_refuses_entries() -> None:
    opened = create_journal(replace(SMALL, journal_bytes_max=50 * 4096))
    with pytest.raises(Overloaded, match="checkpoint"):
        fill(opened, 1, 60)
    assert opened.journal.live_bytes <= 55 * 4096
    opened.journal.append([JournaledHardState(TWO, Term(1), None)])


def test_inconsistent_settings_are_refused() -> None:
    for changes in ({"write_bytes_max": 4096}, {"write_bytes_max": 32 << 20}, {"reserve_bytes": 1 << 30}):
        with pytest.raises(InvalidArgument):
            replace(JournalConfig(), **changes)


# admission


def make_append(index: int, count: int) -> Append:
    return Append(ONE, Index(index), Index(index + count - 1), [BATCH] * count)


def error_of_append(opened: Opened, operation: Append) -> RaftlogError | None:
    try:
        opened.journal.append([operation])
    except RaftlogError as refusal:
        return refusal
    return None


@settings(max_examples=20)
@given(spare=st.integers(0, 20), counts=st.lists(st.integers(1, 15), min_size=1, max_size=12), flushes=st.booleans())
def test_append_error_predicts_the_append(spare: int, counts: list[int], flushes: bool) -> None:
    """The cause may be a full disk, too many waiting operations, or a missing checkpoint."""
    config = replace(SMALL, pending_bytes_max=60_000, journal_bytes_max=40 * 4096)
    opened = create_journal(config, capacity=2 * SMALL.file_bytes + spare * 4096)
    disk, journal, _ = opened
    index = 1
    for count in counts:
        before = (journal.pending_bytes, journal.is_idle)
        said = journal.append_error(count * len(BATCH))
        assert (journal.pending_bytes, journal.is_idle) == before
        raised = error_of_append(opened, make_append(index, count))
        assert (type(said), str(said)) == (type(raised), str(raised))
        index += count if raised is None else 0
        if flushes:
            journal.flush()
            disk.complete_all()
    assert index > 1


def test_admitted_entries_keep_their_space_on_a_full_disk() -> None:
    """Votes and cuts come between admission and append; a checkpoint still has space after them."""
    opened = create_journal(capacity=3 * SMALL.file_bytes)
    disk, journal, _ = opened
    index = 1
    while journal.append_error(2 * len(BATCH)) is None:
        journal.append([JournaledHardState(TWO, Term(index), None), Cut(TWO, Index(1))])
        journal.append([make_append(index, 2)], may_use_reserve=True)
        index += 2
        journal.flush()
        disk.complete_all()
    refusal = journal.append_error(2 * len(BATCH))
    assert isinstance(refusal, StorageFull)
    assert type(error_of_append(opened, make_append(index, 2))) is StorageFull
    journal.append([make_append(index, 2)], may_use_reserve=True)
    journal.flush()
    disk.complete_all()
    assert journal.is_checkpoint_due
    journal.checkpoint([make_state(ONE, index + 1), make_state(TWO, 1, term=index)])
    disk.complete_all()
    assert journal.append_error(2 * len(BATCH)) is None
    _, fold = reopen_after_power_loss(disk)
    assert fold.groups[ONE].last_index == index + 1


def test_admitted_entries_may_use_the_reserve() -> None:
    _, journal, _ = create_journal(replace(SMALL, pending_bytes_max=50_000))
    index = 1
    while journal.append_error(len(BATCH)) is None:
        append_one(journal, index)
        index += 1
    journal.append([make_append(index, 10)], may_use_reserve=True)
    assert 50_000 < journal.pending_bytes <= 50_000 + SMALL.reserve_bytes
    with pytest.raises(Overloaded):
        journal.append([make_append(index + 10, 10)], may_use_reserve=True)


def test_admitted_entries_are_accepted_before_a_due_checkpoint() -> None:
    opened = create_journal(replace(SMALL, journal_bytes_max=50 * 4096))
    with pytest.raises(Overloaded, match="checkpoint"):
        fill(opened, 1, 60)
    index = opened.journal.live_bytes // 4096
    assert isinstance(opened.journal.append_error(1), Overloaded)
    opened.journal.append([Append(TWO, Index(index), Index(index), [BATCH])], may_use_reserve=True)


def test_append_error_returns_the_failure_that_ended_the_journal() -> None:
    disk, journal, _ = create_journal()
    append_one(journal, 1)
    journal.flush()
    disk.fail_sync()
    disk.complete_all()
    assert isinstance(journal.append_error(1), SyncFailed)
    _, closed, _ = create_journal()
    closed.close()
    assert isinstance(closed.append_error(1), LogClosed)


@pytest.mark.parametrize("batches", [1, 40])
def test_the_next_file_is_filled_in_small_slices_in_time(monkeypatch: pytest.MonkeyPatch, batches: int) -> None:
    """No append waits for a whole file: it is complete before its use, with small and large frames."""
    config = replace(SMALL, file_bytes=2 << 20, write_bytes_max=1 << 18, checkpoint_bytes=1 << 30)
    opened = create_journal(config)
    fill_blocks, slices = JournalFiles._fill, []

    def noted(files: JournalFiles, growing: JournalFile, *blocks: int) -> None:
        before = growing.blocks
        fill_blocks(files, growing, *blocks)
        slices.append(growing.blocks - before)

    monkeypatch.setattr(JournalFiles, "_fill", noted)
    monkeypatch.setattr(JournalFiles, "_grow_fully", lambda _: pytest.fail("an append fills a file"))
    index = 1
    while opened.journal.live_bytes < 5 * config.file_bytes:
        for _ in range(batches):
            append_one(opened.journal, index)
            index += 1
        opened.journal.flush()
        opened.disk.complete_all()
    frame_blocks = 1 if batches == 1 else 11
    assert sum(slices) >= 3 * config.file_blocks
    assert max(slices) <= max(FILL_BLOCKS_MIN, 4 * frame_blocks)
