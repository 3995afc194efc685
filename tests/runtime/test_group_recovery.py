"""A Raft group's recovery compared with a list: random histories, crashes at every step, damage, full disks."""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from jepsen.simulation.disk.simulated_disk import SimulatedDisk, SimulatedFile
from raftlog.records import ControlKind, build_batch, build_control_batch
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import Append, CommitHint, Cut, Trim
from raftlog.runtime.log.configuration_walk import FoundConfigurations, read_configurations
from raftlog.runtime.log.replay import JournalEntry, find_first_roll
from raftlog.storage.roll import Roll, encode_roll
from raftlog.types import Index, Offset, Term
from tests.runtime.group_twin import DISK_UUID, GROUP, GROUP_ID, JOURNAL, PATH, SMALL, GroupTwin, run_operations


class GroupAgainstList(RuleBasedStateMachine):
    """State machine of appends, rolls, cuts, trims and checkpoints, with crashes between any two."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.twin = GroupTwin(seed)
        self.twin.open()

    @rule(sizes=st.lists(st.integers(0, 5000), min_size=1, max_size=4), is_large=st.booleans(), rolls=st.booleans())
    def append(self, sizes: list[int], is_large: bool, rolls: bool) -> None:
        """Append data, after a roll if `rolls`; make it durable in the journal or, if large, in the log's files."""
        twin = self.twin
        first = len(twin.entries) + 1
        if rolls:
            twin.roll()
        for size in sizes:
            twin.append_data(size)
        if is_large:
            twin.sync_large(first)
        else:
            twin.journal_small(first)

    @rule()
    def change_configuration(self) -> None:
        first = len(self.twin.entries) + 1
        self.twin.change_configuration()
        self.twin.journal_small(first)

    @rule()
    def elect(self) -> None:
        self.twin.term += 1

    @rule(count=st.integers(1, 4))
    def complete_syncs(self, count: int) -> None:
        for _ in range(count):
            self.twin.disk.complete_next()

    @rule()
    def checkpoint(self) -> None:
        self.twin.begin_checkpoint()

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        twin = self.twin
        lowest = twin.lowest_cut()
        if lowest < len(twin.entries):
            twin.cut_to(data.draw(st.integers(lowest, len(twin.entries) - 1)))
            twin.term += 1

    @precondition(lambda self: self.twin.log.last_index > 1)
    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        twin = self.twin
        end = twin.log.offset_after(twin.durable_index)
        if end > twin.log_start:
            twin.trim(data.draw(st.integers(twin.log_start + 1, end)))

    @rule(kind=st.sampled_from(["power", "kill"]))
    def crash(self, kind: str) -> None:
        """Crash the process or cut the power; recover and check the group."""
        twin = self.twin
        durable = twin.durable_index
        if kind == "power":
            twin.disk.power_loss()
        else:
            twin.disk.process_crash()
        twin.open()
        twin.check(durable)
        twin.term += 1


GroupAgainstList.TestCase.settings = settings(max_examples=20, stateful_step_count=40)
TestGroupAgainstList = GroupAgainstList.TestCase


# crashes at every step


class PowerCut(BaseException):
    """Simulated end of the process under test."""


@contextmanager
def cut_before(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Cut the power before the disk step of that number; yield a function that returns the count of steps."""
    steps = 0

    def count_steps(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            nonlocal steps
            if steps == step:
                raise PowerCut
            steps += 1
            return real(*arguments, **named)

        return call

    with monkeypatch.context() as patch:
        for owner, name in (
            (SimulatedFile, "write"),
            (SimulatedFile, "truncate"),
            (SimulatedDisk, "sync"),
            (SimulatedDisk, "complete_next"),
            (SimulatedDisk, "unlink"),
            (SimulatedDisk, "rename"),
        ):
            patch.setattr(owner, name, count_steps(getattr(owner, name)))
        yield lambda: steps


@pytest.mark.parametrize("part", range(4))
def test_a_group_survives_a_power_cut_before_any_step(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    step = part
    while True:
        twin = GroupTwin(step)
        try:
            with cut_before(step, monkeypatch):
                run_operations(twin)
        except PowerCut:
            durable = twin.durable_index if twin.is_created else 0
        else:
            break
        twin.disk.power_loss()
        twin.open()
        if twin.is_created and hasattr(twin, "recovered"):
            twin.check(durable)
        step += 4
    assert step > 100


@pytest.mark.parametrize("seed", range(6))
def test_a_recovery_survives_a_power_cut_before_any_step(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 5 + 2 * seed
    step = 0
    while True:
        twin = GroupTwin(seed)
        run_operations(twin, turns)
        durable = twin.durable_index
        twin.disk.power_loss()
        try:
            with cut_before(step, monkeypatch):
                twin.open()
        except PowerCut:
            twin.disk.power_loss()
            twin.open()
        else:
            break
        twin.check(durable)
        step += 1
    assert step > 0


def test_entries_survive_recoveries_and_the_next_checkpoint() -> None:
    for seed in range(20):
        twin = GroupTwin(seed)
        run_operations(twin)
        for _ in range(3):
            durable = twin.durable_index
            twin.disk.power_loss()
            twin.open()
            twin.check(durable)
            twin.term += 1
            twin.append_data(100)
            twin.journal_small(len(twin.entries))
            twin.begin_checkpoint()
            twin.disk.complete_all()
            assert not twin.log.list_changes_since_checkpoint().files


# full disks, joined replicas, strangers


def replay_on(disk: SimulatedDisk, twin: GroupTwin) -> None:
    """Crash the process, and open the twin's directory from the disk."""
    disk.process_crash()
    twin.open()


@pytest.mark.parametrize("room", [0, 500, 4000, 9000])
def test_a_group_opens_on_a_full_disk_and_keeps_unwritten_entries_in_memory(room: int) -> None:
    twin = GroupTwin(8)
    twin.open()
    twin.begin_checkpoint()
    twin.disk.complete_all()
    for turn in range(4):
        first = len(twin.entries) + 1
        twin.append_data(3000)
        twin.journal_small(first)
        if turn == 2:
            twin.roll()
            twin.append_data(100)
            twin.journal_small(first + 1)
    twin.disk.complete_all()
    twin.disk.process_crash()
    for name in twin.disk.list_directory(PATH):  # the writes were never synced, and are lost
        if name.startswith(f"{0:020d}"):
            twin.disk.open(f"{PATH}/{name}").truncate(twin.fold_end() if name.endswith(".log") else 0)
        else:
            twin.disk.unlink(f"{PATH}/{name}")
    used = sum(len(data) for data in twin.disk.snapshot().values())
    twin.disk.capacity_bytes = used + room
    twin.open()
    unwritten = [bytes(batch) for batch in twin.recovered.unwritten]
    assert [entry.batch for entry in twin.entries] == twin.read_all() + unwritten
    assert unwritten
    assert twin.recovered.damage == ()
    assert twin.log.durable_index == twin.log.last_index
    twin.disk.capacity_bytes = None
    replay_on(twin.disk, twin)
    twin.check(len(twin.entries))


def test_a_joined_replica_can_be_cut_back_to_an_empty_log() -> None:
    source = GroupTwin(1)
    run_operations(source, 5)
    batches = [entry.batch for entry in source.entries]
    twin = GroupTwin(2)
    twin.journal, _ = Journal.open(twin.disk, JOURNAL, DISK_UUID, SMALL, create=True)
    twin.journal.append([Append(GROUP, Index(1), Index(len(batches)), batches)])
    twin.journal.flush()
    twin.disk.complete_all()
    twin.is_created = True
    twin.disk.power_loss()
    twin.open()
    assert (twin.recovered.damage, twin.recovered.lost_from) == ((), None)
    assert twin.read_all() == batches
    assert twin.disk.list_directory(PATH)
    twin.wait_until_durable(twin.journal.append([Cut(GROUP, Index(1))]))
    replay_on(twin.disk, twin)
    assert (twin.log.last_index, twin.log.next_offset, twin.disk.list_directory(PATH)) == (0, 0, [])
    assert (twin.recovered.damage, twin.recovered.lost_from) == ((), None)
    assert read_configurations(twin.log, twin.recovered.configuration_index, Index(0)) == ((), None)


def test_foreign_files_are_left_alone() -> None:
    twin = GroupTwin(3)
    run_operations(twin, 4)
    twin.disk.process_crash()
    for name in ("notes.txt", f"{99:020d}.index", "00000000000000000000.log.repaired"):
        twin.disk.open(f"{PATH}/{name}", create=True)
    twin.open()
    assert twin.disk.exists(f"{PATH}/notes.txt")
    assert twin.disk.exists(f"{PATH}/00000000000000000000.log.repaired")
    assert not twin.disk.exists(f"{PATH}/{99:020d}.index")


def test_after_a_checkpoint_no_entry_is_replayed_or_synced() -> None:
    twin = GroupTwin(4)
    run_operations(twin, 11)
    twin.begin_checkpoint()
    twin.disk.complete_all()
    replay_on(twin.disk, twin)
    twin.check(len(twin.entries))
    assert twin.log.list_changes_since_checkpoint() == ([], [], [])


def test_configurations_are_found_also_around_damage() -> None:
    twin = GroupTwin(5)
    twin.open()
    for _ in range(3):
        for _ in range(2):
            twin.change_configuration()
            twin.append_data(10)
        twin.roll()
    twin.append_data(10)
    known = tuple(twin.configurations())
    log = twin.log
    for committed in range(len(twin.entries) + 1):
        lowest = max(entry.index for entry in known if entry.index <= max(1, committed))
        expected = FoundConfigurations(tuple(entry for entry in known if entry.index >= lowest), None)
        assert read_configurations(log, None, Index(committed)) == expected
        assert read_configurations(log, known[-1].index, Index(committed)) == expected
    row = log.row_at(known[-1].index)
    twin.disk.flip_bit(log.segment_of_index(row.index).files.log.path, row.position + 80, 1)
    found = read_configurations(log, known[-1].index, known[-1].index)
    assert found.known == known[-1:], "the roll after it says the same"
    assert found.damage is not None
    assert found.damage.offset == row.offset


@pytest.mark.parametrize("is_latest_known", [False, True])
def test_a_damaged_configuration_that_no_roll_has_is_reported(is_latest_known: bool) -> None:
    """The known configurations lack the latest then: with them, the replica must not campaign."""
    twin = GroupTwin(5)
    twin.open()
    twin.append_data(10)
    assert twin.roll()
    for _ in range(2):
        twin.change_configuration()
        twin.append_data(10)
    latest = twin.configurations()[-1]
    row = twin.log.row_at(latest.index)
    twin.disk.flip_bit(twin.log.segment_of_index(row.index).files.log.path, row.position + 80, 1)
    found = read_configurations(twin.log, latest.index if is_latest_known else None, row.index)
    assert latest not in found.known
    assert found.damage is not None
    assert found.damage.offset == row.offset


def test_a_damaged_roll_that_has_the_latest_configuration_is_reported() -> None:
    twin = GroupTwin(5)
    twin.open()
    twin.change_configuration()
    twin.append_data(10)
    assert twin.roll()
    twin.append_data(10)
    segment = twin.log.active
    twin.disk.flip_bit(segment.files.log.path, 80, 1)
    found = read_configurations(twin.log, Index(0), twin.log.last_index)
    assert twin.configurations()[-1] not in found.known
    assert found.damage is not None
    assert found.damage.file == segment.files.log.path


@pytest.mark.parametrize("is_committed", [False, True])
def test_an_uncommitted_roll_at_the_log_start_keeps_the_segment_before_it(is_committed: bool) -> None:
    twin = GroupTwin(6)
    twin.open()
    for _ in range(2):
        twin.append_data(10)
        twin.roll()
    twin.append_data(10)
    twin.journal_small(2)
    twin.begin_checkpoint()
    twin.disk.complete_all()
    segment = twin.log.segments[1]
    twin.log_start = segment.base_offset  # the process ends before it deletes the segment below
    if is_committed:
        twin.journal.hint_commit(CommitHint(GROUP, Index(segment.base_index)))
    twin.wait_until_durable(twin.journal.append([Trim(GROUP, Offset(segment.base_offset))]))
    replay_on(twin.disk, twin)
    assert twin.log.segments[0].base_index == (segment.base_index if is_committed else 1)
    assert twin.log.log_start_offset == segment.base_offset
    assert twin.disk.exists(f"{PATH}/{0:020d}.log") is not is_committed


def entry(index: int, offset: int, *, is_roll: bool, is_large: bool) -> JournalEntry:
    """Return an entry as stored in the journal; a large one has only its row."""
    if is_large:
        row = struct.pack(">QQQQIII", index, 1, offset, 0 if is_roll else 100, 100, 0, 0)
        return JournalEntry(Index(index), Term(1), Offset(offset), None, row)
    roll = encode_roll(Roll(GROUP_ID, index, 1, 0, -1, 5))
    batch = (
        build_control_batch(ControlKind.ROLL, roll, 5, next_offset=Offset(offset)) if is_roll else build_batch([b"x"])
    )
    return JournalEntry(Index(index), Term(1), Offset(offset), memoryview(batch))


@pytest.mark.parametrize(
    ("log_start", "commit_hint", "held", "is_begun", "is_large", "expected"),
    [
        (15, 0, [0, 10, 20], True, False, 5),
        (20, 0, [0, 10, 20], True, False, 5),
        (20, 9, [0, 10, 20], True, False, 9),
        (25, 0, [0, 10, 20], True, False, 9),
        (20, 0, [20], False, False, 5),
        (20, 0, [20], False, True, 9),
        (20, 0, [10, 20], False, True, 5),
        (10, 0, [10], False, False, 5),
        (10, 0, [0, 10], True, False, None),
        (9, 0, [0, 10], True, False, None),
    ],
)
def test_a_log_trimmed_past_its_checkpoint_begins_with_an_existing_roll(
    log_start: int, commit_hint: int, held: list[int], is_begun: bool, is_large: bool, expected: int | None
) -> None:
    """Entries 3 and 4 belong to the checkpoint's file 0; rolls 5 and 9 begin the files 10 and 20."""
    entries = [
        entry(index, offset, is_roll=index in (5, 9), is_large=is_large)
        for index, offset in ((3, 8), (4, 9), (5, 10), (6, 10), (7, 14), (8, 19), (9, 20), (10, 20), (11, 30))
    ]
    found = find_first_roll(entries, log_start, commit_hint, held, is_begun=is_begun)
    assert (found.index if found else None) == expected
