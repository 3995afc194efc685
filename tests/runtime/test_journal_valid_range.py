"""Torn or damaged: every subset of an unfinished write, and every kind of damage in every block."""

from itertools import product
from random import Random
from typing import NamedTuple

import pytest
from crc32c import crc32c

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.errors import FormatError, JournalDamaged
from raftlog.runtime.journal.blocks import WRITE_BLOCKS_MAX
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.journal.fold import Fold
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import JournaledHardState
from raftlog.runtime.journal.recovery import read_journal
from raftlog.types import Term
from tests.runtime.journal_twin import DISK, GROUPS, PATH, SMALL, Twin

PAGE = 4096
GROUP = GROUPS[0]
Files = dict[str, bytes]


def disk_with(files: Files) -> SimulatedDisk:
    """Return a disk on which these files are durable."""
    disk = SimulatedDisk(Random(1))
    disk.make_directory(PATH)
    disk.sync([], ["/", PATH.rpartition("/")[0]])
    for path, data in files.items():
        file = disk.open(path, create=True)
        file.write(0, [data])
        disk.sync([file], [PATH])
    return disk


class LastWrite(NamedTuple):
    """Files of a journal before its last write and after it."""

    before: Files
    after: Files
    twin: Twin
    durable: int

    @property
    def written(self) -> list[tuple[str, int]]:
        """Blocks of the last write, in order."""
        pages = [(path, page) for path, data in self.after.items() for page in range(len(data) // PAGE)]
        changed = [
            (path, page)
            for path, page in pages
            if self.page(self.before, path, page) != self.page(self.after, path, page)
        ]
        return sorted(changed, key=lambda at: int.from_bytes(self.page(self.after, *at)[24:32]))

    @staticmethod
    def page(files: Files, path: str, page: int) -> bytes:
        return files.get(path, b"")[page * PAGE : (page + 1) * PAGE].ljust(PAGE, b"\0")

    def with_blocks(self, kept: set[tuple[str, int]]) -> Files:
        return {
            path: b"".join(
                self.page(self.after if (path, page) in kept else self.before, path, page)
                for page in range(len(data) // PAGE)
            )
            for path, data in self.after.items()
        }


def settle(disk: SimulatedDisk, journal: Journal) -> None:
    journal.flush()
    disk.complete_all()


def write_after(blocks_before: int, *, recycled: bool, size: int = 17_000) -> LastWrite:
    """Write five blocks after `blocks_before` others, in new or recycled files."""
    disk = SimulatedDisk(Random(2))
    twin = Twin(Random(2))
    journal, _ = Journal.open(disk, PATH, DISK, SMALL, create=True)
    while recycled and journal.durable_sequence < 100:
        twin.append(journal, GROUP, [9000])
        settle(disk, journal)
        if journal.is_checkpoint_due:
            twin.begin_checkpoint(journal)
            twin.complete_checkpoint(journal)
            disk.complete_all()
    for _ in range(blocks_before):
        twin.vote(journal, GROUP)
        settle(disk, journal)
    before, durable = disk.snapshot(), journal.durable_sequence
    twin.append(journal, GROUP, [size])
    journal.flush()
    return LastWrite(before, disk.snapshot(), twin, durable)


PLACES = [write_after(blocks, recycled=recycled) for blocks in (0, 1, 18, 20, 22) for recycled in (False, True)]


@pytest.mark.parametrize("writing", PLACES)
def test_any_subset_of_an_unfinished_write_is_torn(writing: LastWrite) -> None:
    assert len(writing.written) == 5
    for choice in product((False, True), repeat=5):
        kept = {at for at, is_kept in zip(writing.written, choice, strict=True) if is_kept}
        disk = disk_with(writing.with_blocks(kept))
        journal, fold = Journal.open(disk, PATH, DISK, SMALL, synced_at_least=writing.durable)
        assert fold.end == writing.durable + 1 + 5 * all(choice)
        writing.twin.check(fold, writing.durable)
        check_next_write(disk, journal, fold)


def check_next_write(disk: SimulatedDisk, journal: Journal, before: Fold) -> None:
    """Check that the next write is neither joined with a torn one nor reported as damage because of it."""
    term = Term(before.groups[GROUP].term + 1) if GROUP in before.groups else Term(1)
    number = journal.append([JournaledHardState(GROUP, term, None)])
    settle(disk, journal)
    assert journal.durable_sequence == number
    disk.power_loss()
    _, fold = Journal.open(disk, PATH, DISK, SMALL, synced_at_least=number)
    assert fold.groups[GROUP].term == term
    assert fold.end == number + 1


@pytest.mark.parametrize("blocks", [1, 20, 22])
def test_blocks_of_two_attempts_at_one_frame_are_not_joined(blocks: int) -> None:
    """Both have five blocks with the same sequences; only the chain distinguishes them."""
    first, second = write_after(blocks, recycled=False), write_after(blocks, recycled=False, size=17_001)
    assert first.before == second.before
    assert first.written == second.written
    for border in range(1, 5):
        early, late = set(first.written[:border]), first.written[border:]
        mixed = LastWrite(first.with_blocks(early), second.after, first.twin, first.durable).with_blocks(set(late))
        _, fold = Journal.open(disk_with(mixed), PATH, DISK, SMALL)
        assert fold.end == first.durable + 1


def with_sync(writing: LastWrite) -> LastWrite:
    """Return the same write synced, with a small write after it."""
    disk = disk_with(writing.after)
    journal, _ = Journal.open(disk, PATH, DISK, SMALL)
    return LastWrite(writing.before, disk.snapshot(), writing.twin, journal.durable_sequence)


def live_blocks(files: Files) -> list[tuple[int, str, int]]:
    """Return sequence, file and number of each block that recovery needs."""
    blocks = []
    start = 0
    for path, data in files.items():
        for page in range(len(data) // PAGE):
            header = data[page * PAGE : page * PAGE + 48]
            if header[:4] == b"RLJB":
                blocks.append((int.from_bytes(header[24:32]), path, page))
                start = max(start, int.from_bytes(header[32:40]))
    return sorted(block for block in blocks if block[0] >= start)


DAMAGES = ("flip", "flip the magic", "zero", "stale", "garbage", "another block")


def damage_block(files: Files, old: Files, kind: str, path: str, page: int) -> SimulatedDisk:
    """Return a disk with these files and one damaged block."""
    at = page * PAGE
    changed = dict(files)
    block = bytearray(files[path][at : at + PAGE])
    if kind == "flip":
        block[100] ^= 4
    elif kind == "flip the magic":
        block[0] ^= 1
    elif kind == "zero":
        block = bytearray(PAGE)
    elif kind == "stale":
        block = bytearray(old[path][at : at + PAGE])
    elif kind == "garbage":
        block = bytearray(Random(page).randbytes(PAGE))
    else:
        other = (page + 1) * PAGE % len(files[path])
        block = bytearray(files[path][other : other + PAGE])
    changed[path] = files[path][:at] + bytes(block) + files[path][at + PAGE :]
    return disk_with(changed)


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("writing", PLACES[2:6])
def test_damage_to_any_synced_block_is_reported(writing: LastWrite, kind: str) -> None:
    """The very last frame is excepted: the opening wrote it, and it has no operation."""
    whole = with_sync(writing)
    zeros = {path: bytes(len(data)) for path, data in whole.after.items()}
    blocks = live_blocks(whole.after)
    for sequence, path, page in blocks[:-1]:
        disk = damage_block(whole.after, zeros, kind, path, page)
        if disk.snapshot()[path] == whole.after[path]:
            continue
        with pytest.raises(JournalDamaged) as reported:
            Journal.open(disk, PATH, DISK, SMALL)
        assert (reported.value.file, reported.value.position) in ((path, page * PAGE), (PATH, 0)), sequence
        assert disk.snapshot()[path] != whole.after[path]


def test_damage_is_reported_with_file_and_position() -> None:
    whole = with_sync(PLACES[4])
    sequence, path, page = live_blocks(whole.after)[3]
    disk = damage_block(whole.after, {}, "flip", path, page)
    with pytest.raises(JournalDamaged) as reported:
        Journal.open(disk, PATH, DISK, SMALL)
    assert (reported.value.file, reported.value.position) == (path, page * PAGE)
    assert sequence > 0
    unchanged = disk.snapshot()
    with pytest.raises(JournalDamaged):
        read_journal(disk, PATH, DISK)
    assert disk.snapshot() == unchanged, "damage is reported, and left as it is"


@pytest.mark.parametrize("inside", [1, 47, 55, 100, 200, 4000, 4095])
@pytest.mark.parametrize("writing", PLACES[2:6])
def test_a_file_that_ends_inside_a_live_block_is_damage(writing: LastWrite, inside: int) -> None:
    """Even if zeros would complete the block, it is damage: an opening would extend and overwrite the file."""
    whole = with_sync(writing)
    for _, path, page in live_blocks(whole.after):
        cut = whole.after[path][: page * PAGE + inside]
        disk = disk_with({**whole.after, path: cut})
        for open_journal in (read_journal, Journal.open):
            with pytest.raises(JournalDamaged) as reported:
                open_journal(disk, PATH, DISK)
            assert (reported.value.file, reported.value.position) in ((path, page * PAGE), (PATH, 0))
        assert disk.snapshot()[path] == cut


def test_a_file_that_ends_inside_a_block_of_zeros_is_filled_up() -> None:
    whole = with_sync(PLACES[4])
    path = max(path for _, path, _ in live_blocks(whole.after))
    page = max(page for _, live, page in live_blocks(whole.after) if live == path) + 1
    disk = disk_with({**whole.after, path: whole.after[path][: page * PAGE + 100]})
    journal, fold = Journal.open(disk, PATH, DISK, SMALL, synced_at_least=whole.durable)
    whole.twin.check(fold, whole.durable)
    check_next_write(disk, journal, fold)
    assert len(disk.snapshot()[path]) == len(whole.after[path])


def test_a_block_in_the_wrong_place_is_reported() -> None:
    whole = with_sync(PLACES[4])
    _, path, page = live_blocks(whole.after)[3]
    with pytest.raises(JournalDamaged, match=f"it holds block {page + 1} of use 1"):
        Journal.open(damage_block(whole.after, {}, "another block", path, page), PATH, DISK, SMALL)


def test_a_vanished_last_frame_is_detected_by_its_remembered_sequence() -> None:
    whole = with_sync(PLACES[2])
    sequence, path, page = live_blocks(whole.after)[-1]
    lost = damage_block(whole.after, {}, "zero", path, page)
    assert read_journal(lost, PATH, DISK).end == sequence
    with pytest.raises(JournalDamaged, match=f"block {sequence} had been synced"):
        Journal.open(lost, PATH, DISK, SMALL, synced_at_least=sequence)


def test_a_lost_file_is_damage_and_a_lost_spare_is_not() -> None:
    whole = with_sync(PLACES[7])
    live = {path for _, path, _ in live_blocks(whole.after)}
    assert 0 < len(live) < len(whole.after)
    for gone in whole.after:
        disk = disk_with({path: data for path, data in whole.after.items() if path != gone})
        if gone in live:
            with pytest.raises(JournalDamaged):
                Journal.open(disk, PATH, DISK, SMALL, synced_at_least=whole.durable)
        else:
            journal, _ = Journal.open(disk, PATH, DISK, SMALL, synced_at_least=whole.durable)
            journal.close()


def test_missing_content_is_damage_unless_a_journal_is_created() -> None:
    for files in ({}, {f"{PATH}/00000000.journal": bytes(5 * PAGE)}):
        with pytest.raises(JournalDamaged, match="no intact block is left"):
            Journal.open(disk_with(files), PATH, DISK, SMALL)
        journal, _ = Journal.open(disk_with(files), PATH, DISK, SMALL, create=True)
        assert journal.durable_sequence == 2


def test_the_journal_of_another_disk_is_damage() -> None:
    disk = disk_with(PLACES[2].after)
    with pytest.raises(JournalDamaged):
        Journal.open(disk, PATH, type(DISK)(int=78), SMALL, create=True)


def test_bad_bytes_beyond_the_last_write_are_wiped_and_no_damage() -> None:
    config = JournalConfig(file_bytes=8 << 20, write_bytes_max=4 << 20, reserve_bytes=1 << 20)
    disk = SimulatedDisk(Random(4))
    journal, _ = Journal.open(disk, PATH, DISK, config, create=True)
    end = journal.durable_sequence
    journal.close()
    path = f"{PATH}/00000000.journal"
    disk.flip_bit(path, (end + WRITE_BLOCKS_MAX + 1) * PAGE, 3)
    journal, _ = Journal.open(disk, PATH, DISK, config, synced_at_least=end)
    journal.close()
    assert not any(disk.snapshot()[path][(end + 10) * PAGE :])
    disk.flip_bit(path, (end + WRITE_BLOCKS_MAX - 1) * PAGE, 3)
    with pytest.raises(JournalDamaged):
        Journal.open(disk, PATH, DISK, config)


def test_a_block_of_a_newer_version_is_refused_and_left_alone() -> None:
    files = dict(PLACES[0].after)
    path = f"{PATH}/00000000.journal"
    block = bytearray(files[path][:PAGE])
    block[43] = 2
    block[4:8] = crc32c(block[8:], crc32c(DISK.bytes)).to_bytes(4)
    files[path] = bytes(block) + files[path][PAGE:]
    with pytest.raises(FormatError, match="version 2"):
        Journal.open(disk_with(files), PATH, DISK, SMALL)
