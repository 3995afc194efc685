"""Damaged segments of a Raft group: damage is located, served entries are correct, lost ones are reported."""

from collections.abc import Callable
from random import Random

import pytest

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.errors import CorruptBatch
from raftlog.raft import EntryId
from raftlog.records import read_header
from raftlog.runtime.journal.operations import LostEnd
from raftlog.runtime.log.startup import highest_lost_end
from raftlog.storage.directory import DAMAGED, internal_path
from raftlog.types import Index, Term
from tests.runtime.group_twin import GROUP, PATH, GroupTwin, run_operations


class DamagedGroup:
    """Raft group whose files were damaged before it was reopened, with the list of its earlier entries."""

    def __init__(self, seed: int, turns: int, damage: Callable[[SimulatedDisk, Random], None]) -> None:
        self.twin = GroupTwin(seed)
        run_operations(self.twin, turns)
        self.twin.disk.complete_all()
        durable = self.twin.durable_index
        self.twin.disk.power_loss()
        self.twin.open()
        self.twin.check(durable)
        self.twin.disk.process_crash()
        damage(self.twin.disk, Random(seed))
        self.repaired: set[int] = set()
        self.faults = 6 if damage is damage_several else 1
        self.recover()

    def recover(self) -> None:
        twin = self.twin
        twin.open()
        self.recovered = twin.recovered
        self.last = twin.fold.groups[GROUP].last_index

    @property
    def is_lost(self) -> bool:
        return self.recovered.lost_from is not None

    def check(self) -> list[int]:
        """Check that no wrong byte is returned and no entry is left out silently; return the damaged entries."""
        log, entries = self.twin.log, self.twin.entries
        if self.is_lost:
            assert self.recovered.lost_from == log.last_index + 1
            assert self.recovered.voting_position is not None
            assert self.recovered.voting_position.index == self.last
            assert self.recovered.voting_position.term >= entries[self.last - 1].term
            assert self.recovered.damage
        else:
            assert log.last_index == self.last
        if not log.segments:
            return []
        found = []
        for index in range(log.segments[0].base_index, log.last_index + 1):
            expected = entries[index - 1]
            try:
                [(row, batch)] = log.read_entries(Index(index), Index(index), 0)
                assert bytes(batch) == expected.batch, f"wrong bytes in entry {index}"
                assert log.check_row_at(Index(index)) == row
            except CorruptBatch:
                found.append(index)
                if self.faults > 1:
                    continue  # a row that rotted can stand for a batch that did as well
                try:
                    assert log.check_row_at(Index(index)).term == expected.term
                except CorruptBatch:
                    continue
        assert {each.index for each in self.recovered.damage} - self.repaired <= {*found, self.recovered.lost_from}
        following = self.twin.log.next_offset
        assert following == read_header(entries[log.last_index - 1].batch).next_offset
        return found

    def repair(self, damaged: list[int]) -> None:
        log = self.twin.log
        for index in damaged:
            log.repair_batch(Index(index), self.twin.entries[index - 1].batch)
            self.repaired.add(index)
        assert self.check() == []


def recovery_findings(group: DamagedGroup) -> tuple[object, object, int]:
    """Return the findings of the recovery without reasons: a rewritten file may keep its length in a power loss."""
    places = [each._replace(reason="") for each in group.recovered.damage]
    return places, group.recovered.lost_from, group.twin.log.last_index


def damaged_files(twin: GroupTwin) -> list[bytes]:
    """Return the content of the files that the recovery moved aside."""
    directory = internal_path(PATH, DAMAGED)
    return [twin.disk.snapshot()[f"{directory}/{name}"] for name in twin.disk.list_directory(directory)]


def files_of(disk: SimulatedDisk, suffix: str) -> list[str]:
    return [f"{PATH}/{name}" for name in disk.list_directory(PATH) if name.endswith(suffix)]


def flip(suffix: str) -> Callable[[SimulatedDisk, Random], None]:
    """Return a function that flips one bit in a random file with this suffix."""

    def damage(disk: SimulatedDisk, random: Random) -> None:
        """Flip one bit."""
        files = [name for name in files_of(disk, suffix) if disk.snapshot()[name]]
        if files:
            name = random.choice(files)
            disk.flip_bit(name, random.randrange(len(disk.snapshot()[name])), random.randrange(8))

    return damage


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
@pytest.mark.parametrize("part", range(2))
def test_a_flipped_bit_is_reported_or_harmless(suffix: str, part: int) -> None:
    outcomes = set()
    for seed in range(part, 120, 2):
        group = DamagedGroup(seed, 4 + seed % 14, flip(suffix))
        damaged = group.check()
        assert len(damaged) <= 1
        if group.is_lost:
            assert group.recovered.lost_from == group.last, "only the last entry can be lost to one bit"
        if suffix != ".log":
            assert not damaged
            group.twin.check_times()
        elif not group.is_lost:
            group.repair(damaged)
        outcomes.add((bool(damaged), group.is_lost))
    assert (False, False) in outcomes
    assert suffix != ".log" or (True, False) in outcomes


def zero_page(disk: SimulatedDisk, random: Random) -> None:
    name = random.choice(files_of(disk, ".log"))
    disk.zero_page(name, random.randrange(-(-len(disk.snapshot()[name]) // 4096)))


def shorten(disk: SimulatedDisk, random: Random) -> None:
    name = random.choice(files_of(disk, ".log"))
    file = disk.open(name)
    file.truncate(random.randrange(file.size()))
    disk.sync([file])


def unlink_log(disk: SimulatedDisk, random: Random) -> None:
    disk.unlink(random.choice(files_of(disk, ".log")))
    disk.sync([], [PATH])


def unlink_indexes(disk: SimulatedDisk, random: Random) -> None:
    for name in files_of(disk, ".index"):
        disk.unlink(name)


def shorten_index(disk: SimulatedDisk, random: Random) -> None:
    file = disk.open(random.choice(files_of(disk, ".index")))
    file.truncate(random.randint(0, file.size()))


def damage_several(disk: SimulatedDisk, random: Random) -> None:
    for suffix in (".log", ".log", ".index", ".timeindex", ".log", ".index"):
        flip(suffix)(disk, random)


@pytest.mark.parametrize("damage", [zero_page, shorten, unlink_log, unlink_indexes, shorten_index, damage_several])
def test_larger_damage_is_reported_and_loses_only_the_end(
    damage: Callable[[SimulatedDisk, Random], None],
) -> None:
    losses = 0
    for seed in range(40):
        group = DamagedGroup(seed, 4 + seed % 14, damage)
        damaged = group.check()
        losses += group.is_lost
        if damage in (unlink_indexes, shorten_index):
            assert not damaged
            assert not group.is_lost
            group.twin.check_times()
        first = recovery_findings(group)
        group.twin.disk.power_loss()
        group.recover()
        group.check()
        again = recovery_findings(group)
        assert first == again or (group.is_lost and again[2] <= first[2]), "another recovery finds the same"
    assert losses > 0 or damage is not unlink_log


IN_HEADER, IN_RECORDS = 30, 70


def flip_byte(twin: GroupTwin, index: int, at: int) -> None:
    row = twin.log.row_at(Index(index))
    twin.disk.flip_bit(twin.log.segment_of_index(index).files.log.path, row.position + at, 1)


@pytest.mark.parametrize(
    ("found", "journaled", "highest"),
    [
        (None, None, None),
        ((88, 1), None, (88, 1)),
        (None, (89, 1), (89, 1)),
        ((88, 1), (89, 1), (89, 1)),
        ((95, 1), (89, 1), (95, 1)),
        ((88, 2), (89, 1), (88, 2)),
    ],
)
def test_a_second_loss_keeps_the_highest_end(
    found: tuple[int, int] | None, journaled: tuple[int, int] | None, highest: tuple[int, int] | None
) -> None:
    """A log that lost its end, and then more before that was filled again, is bound by its first end."""
    found_id = None if found is None else EntryId(Index(found[0]), Term(found[1]))
    journaled_id = None if journaled is None else LostEnd(Index(journaled[0]), Term(journaled[1]))
    assert highest_lost_end(found_id, journaled_id) == highest


def test_a_damaged_last_large_entry_becomes_the_voting_position() -> None:
    twin = GroupTwin(3)
    twin.open()
    twin.term = 7
    first = len(twin.entries) + 1
    for size in (5000, 6000, 7000):
        twin.append_data(size)
    twin.sync_large(first)
    twin.disk.complete_all()
    flip_byte(twin, 4, IN_HEADER)
    position = twin.log.row_at(Index(4)).position
    lost = twin.disk.snapshot()[f"{PATH}/{0:020d}.log"][position:]
    twin.disk.process_crash()
    twin.open()
    recovered = twin.recovered
    assert (recovered.lost_from, recovered.log.last_index, recovered.voting_position) == (4, 3, (4, 7))
    [damage] = recovered.damage
    assert (damage.index, damage.offset, damage.position) == (4, recovered.log.next_offset, position)
    assert "the offset after it is not known" in str(damage.error())
    assert damaged_files(twin) == [lost]
    assert twin.read_all() == [entry.batch for entry in twin.entries[:3]]


@pytest.mark.parametrize("index", [3, 4])
def test_a_damaged_entry_keeps_its_place_until_it_is_repaired(index: int) -> None:
    twin = GroupTwin(4)
    twin.open()
    first = len(twin.entries) + 1
    for size in (5000, 6000, 7000):
        twin.append_data(size)
    twin.sync_large(first)
    twin.disk.complete_all()
    flip_byte(twin, index, IN_RECORDS)
    twin.disk.process_crash()
    twin.open()
    assert [damage.index for damage in twin.recovered.damage] == [index]
    assert twin.recovered.lost_from is None
    assert (twin.log.last_index, twin.log.check_row_at(Index(index)).term) == (4, 1)
    with pytest.raises(CorruptBatch):
        twin.log.read_entries(Index(index), Index(4), 1 << 20)
    twin.append_data(50)
    twin.journal_small(5)
    twin.begin_checkpoint()
    twin.disk.complete_all()
    twin.log.repair_batch(Index(index), twin.entries[index - 1].batch)
    assert f"{PATH}/{0:020d}.log" in [file.path for file in twin.log.list_changes_since_checkpoint().files]
    assert twin.read_all() == [entry.batch for entry in twin.entries]


def test_files_of_a_lost_tail_are_moved_aside() -> None:
    twin = GroupTwin(5)
    run_operations(twin, 12)
    twin.begin_checkpoint()
    twin.disk.complete_all()
    bases = [segment.base_offset for segment in twin.log.segments]
    assert len(bases) > 2
    twin.disk.process_crash()
    content = twin.disk.snapshot()[f"{PATH}/{bases[-1]:020d}.log"]
    twin.disk.unlink(f"{PATH}/{bases[1]:020d}.log")
    twin.open()
    recovered = twin.recovered
    assert recovered.lost_from == recovered.log.last_index + 1
    assert recovered.voting_position == (len(twin.entries), twin.entries[-1].term)
    assert recovered.log.active.base_offset == bases[0]
    kept = damaged_files(twin)
    assert content in kept
    assert len(kept) == len(bases) - 2
    twin.entries = twin.entries[: recovered.log.last_index]
    assert twin.roll(), "a file of the same name as a lost one"
    twin.append_data(10)
    assert twin.read_all() == [entry.batch for entry in twin.entries[recovered.log.segments[0].base_index - 1 :]]


def test_a_directory_without_files_is_a_lost_log() -> None:
    twin = GroupTwin(6)
    run_operations(twin, 6)
    twin.begin_checkpoint()
    twin.disk.complete_all()
    twin.disk.process_crash()
    for name in twin.disk.list_directory(PATH):
        twin.disk.unlink(f"{PATH}/{name}")
    twin.open()
    assert (twin.log.segments, twin.log.last_index, twin.log.next_offset) == ((), 0, 0)
    assert twin.recovered.lost_from == 1
    assert twin.recovered.voting_position == (len(twin.entries), twin.entries[-1].term)
