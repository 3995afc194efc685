"""The journal: sync waiters, checkpoints, file recycling, failed syncs, closing."""

from dataclasses import replace
from random import Random

import pytest

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.errors import LogClosed, SyncFailed
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import CommitHint, Cut, JournaledHardState, Mark
from raftlog.storage.roll import RollMember
from raftlog.types import Index, Term
from tests.runtime.journal_twin import DISK, PATH, SMALL, end_of
from tests.runtime.opened_journal import ONE, TWO, append_one, create_journal, fill, make_state, reopen_after_power_loss

# syncs


def test_one_sync_serves_all_waiters() -> None:
    disk, journal, durable = create_journal(replace(SMALL, file_bytes=100 * 4096))
    before = disk.sync_count
    first = append_one(journal, 1)
    journal.flush()
    late = [append_one(journal, index, TWO) for index in range(1, 9)]
    for _ in late:
        journal.flush()
    assert disk.pending_syncs == 1
    disk.complete_next()
    assert journal.durable_sequence == first
    disk.complete_all()
    assert disk.sync_count - before == 2
    assert durable == [first, journal.durable_sequence]
    assert first < late[0] == late[-1] <= journal.durable_sequence


def test_nothing_is_written_or_durable_before_the_flush_and_its_sync() -> None:
    disk, journal, durable = create_journal()
    untouched = disk.snapshot()
    append_one(journal, 1)
    assert disk.snapshot() == untouched
    journal.flush()
    assert disk.snapshot() != untouched
    assert not durable
    _, fold = reopen_after_power_loss(disk)
    assert ONE not in fold.groups or fold.groups[ONE].last_index == 1


def test_an_idle_flush_does_nothing() -> None:
    disk, journal, _ = create_journal()
    journal.flush()
    assert disk.pending_syncs == 0
    assert journal.is_idle


def test_a_commit_hint_is_written_with_the_next_sync() -> None:
    disk, journal, _ = create_journal()
    append_one(journal, 1)
    journal.flush()
    disk.complete_all()
    journal.hint_commit(CommitHint(ONE, Index(1)))
    journal.flush()
    assert disk.pending_syncs == 0
    journal.append([JournaledHardState(TWO, Term(1), None)])
    journal.flush()
    disk.complete_all()
    _, fold = reopen_after_power_loss(disk)
    assert fold.groups[ONE].commit_hint == 1


def test_a_completion_may_append_operations() -> None:
    disk, journal, durable = create_journal()

    def go_on(sequence: int) -> None:
        durable.append(sequence)
        if len(durable) < 5:
            append_one(journal, len(durable) + 1)
            journal.flush()

    journal.on_durable = go_on
    append_one(journal, 1)
    journal.flush()
    disk.complete_all()
    assert len(durable) == 5
    _, fold = reopen_after_power_loss(disk)
    assert fold.groups[ONE].last_index == 5


def test_a_large_operation_spans_frames_of_one_flush() -> None:
    disk, journal, durable = create_journal()
    numbers = [append_one(journal, index, batch=bytes(build_batch([NewRecord(bytes(9000))]))) for index in range(1, 20)]
    assert len(set(numbers)) > 3
    journal.flush()
    disk.complete_all()
    assert journal.durable_sequence >= numbers[-1]
    assert len(durable) == len(set(numbers))
    _, fold = reopen_after_power_loss(disk)
    assert fold.groups[ONE].last_index == 19


def test_a_failed_sync_ends_the_journal_and_is_never_retried() -> None:
    disk, journal, durable = create_journal()
    failures: list[Exception] = []
    journal.on_failure = failures.append
    append_one(journal, 1)
    journal.flush()
    append_one(journal, 2)
    journal.flush()
    disk.fail_sync()
    disk.complete_all()
    assert not durable
    assert [type(failure) for failure in failures] == [SyncFailed]
    assert disk.pending_syncs == 0
    for call in (journal.flush, lambda: append_one(journal, 3), lambda: journal.begin_checkpoint([])):
        with pytest.raises(SyncFailed):
            call()
    journal.close()


def test_page_cache_contents_after_a_failed_sync_are_made_durable_before_use() -> None:
    """The kernel marks those pages clean: without a new write no sync would store them."""
    disk, journal, _ = create_journal()
    append_one(journal, 1)
    journal.flush()
    disk.fail_sync()
    disk.complete_all()
    disk.process_crash()
    _, fold = Journal.open(disk, PATH, DISK, SMALL)
    seen = fold.groups[ONE].last_index
    assert seen == 1
    _, fold = reopen_after_power_loss(disk)
    assert fold.groups[ONE].last_index == seen


def test_a_failed_sync_while_opening_is_an_error() -> None:
    disk, journal, _ = create_journal()
    journal.close()
    disk.fail_sync()
    with pytest.raises(OSError, match="Input/output"):
        Journal.open(disk, PATH, DISK, SMALL)


# checkpoints


def test_a_completed_checkpoint_moves_the_start_and_recycles_files() -> None:
    opened = create_journal()
    disk, journal, _ = opened
    after = 1
    for _ in range(8):
        after = fill(opened, after, 45)
        assert journal.is_checkpoint_due
        journal.checkpoint([make_state(ONE, after - 1)])
        disk.complete_all()
        assert not journal.is_checkpoint_due
    assert len(disk.list_directory(PATH)) <= 2 + SMALL.spare_files_max
    _, fold = reopen_after_power_loss(disk)
    group = fold.groups[ONE]
    assert group.keep_to == group.last_index == after - 1
    assert group.end is not None
    assert group.end.id.index == after - 1
    assert not list(group.extents())


def test_operations_during_a_checkpoint_are_replayed_after_it() -> None:
    opened = create_journal()
    disk, journal, _ = opened
    fill(opened, 1, 3)
    number = journal.begin_checkpoint([make_state(ONE, 3)])
    append_one(journal, 4)
    journal.append([Cut(ONE, Index(3))])
    append_one(journal, 3)
    journal.flush()
    disk.complete_all()
    _, fold = reopen_after_power_loss(copy_disk(disk))
    assert fold.start < number, "not completed, so recovery begins where it did"
    journal.complete_checkpoint(number)
    disk.complete_all()
    _, fold = reopen_after_power_loss(disk)
    assert fold.start == number
    group = fold.groups[ONE]
    assert (group.keep_to, [(each.first, each.last) for each in group.extents()]) == (2, [(3, 3)])


def copy_disk(disk: SimulatedDisk) -> SimulatedDisk:  # reads as the constructor that it replaces
    copy = SimulatedDisk(Random(2))
    copy.make_directory(PATH)
    for path, data in disk.snapshot().items():
        file = copy.open(path, create=True)
        file.write(0, [data])
        copy.sync([file], [PATH])
    copy.sync([], ["/", PATH.rpartition("/")[0]])
    return copy


def test_a_checkpoint_may_be_completed_before_its_begin_is_durable() -> None:
    disk, journal, _ = create_journal()
    append_one(journal, 1)
    number = journal.checkpoint([make_state(ONE, 1)])
    assert disk.pending_syncs == 1
    disk.complete_all()
    _, fold = reopen_after_power_loss(disk)
    assert fold.start == number


def test_a_checkpoint_of_many_groups_spans_frames_and_drops_other_groups() -> None:
    config = replace(SMALL, reserve_bytes=20 * 4096)
    disk, journal, _ = create_journal(config)
    append_one(journal, 1, TWO)
    groups = [number.to_bytes(16) for number in range(100, 900)]
    vote = RollMember(3, DISK)
    journal.checkpoint([make_state(group, 7)._replace(vote=vote, commit_hint=Index(6)) for group in groups])
    disk.complete_all()
    _, fold = reopen_after_power_loss(disk, config)
    assert list(fold.groups) == groups
    last = fold.groups[groups[-1]]
    assert (last.mark, last.term, last.vote, last.commit_hint) == (Mark.CREATED, 1, vote, 6)
    assert last.end == end_of({7: b""})


# files


@pytest.mark.parametrize("seed", range(12))
def test_the_name_of_a_new_file_is_durable_before_its_content(seed: int) -> None:
    opened = create_journal()
    opened.disk.random.seed(seed)
    fill(opened, 1, 130)
    assert len(opened.disk.list_directory(PATH)) >= 6
    _, fold = reopen_after_power_loss(opened.disk)
    assert fold.groups[ONE].last_index == 130


def test_files_are_deleted_only_after_the_new_start_is_durable() -> None:
    opened = create_journal(replace(SMALL, spare_files_max=0))
    disk, journal, _ = opened
    fill(opened, 1, 60)
    number = journal.begin_checkpoint([make_state(ONE, 60)])
    journal.flush()
    disk.complete_all()
    files = disk.list_directory(PATH)
    journal.complete_checkpoint(number)
    assert disk.pending_syncs == 1
    assert disk.list_directory(PATH) == files
    disk.complete_all()
    assert len(disk.list_directory(PATH)) < len(files)


# the end


def test_close_writes_waiting_operations() -> None:
    disk, journal, _ = create_journal()
    append_one(journal, 1)
    journal.close()
    journal.close()
    with pytest.raises(LogClosed):
        append_one(journal, 2)
    _, fold = reopen_after_power_loss(disk)
    assert fold.groups[ONE].last_index == 1


def test_sequences_continue_over_restarts() -> None:
    disk, journal, _ = create_journal()
    seen = [journal.durable_sequence]
    for _ in range(4):
        journal, _ = reopen_after_power_loss(disk)
        seen.append(journal.durable_sequence)
    assert seen == sorted(set(seen))
