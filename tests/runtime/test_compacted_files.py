"""Compaction interrupted by a crash at any step, and its recovery on a disk that loses unsynced data."""

from contextlib import suppress
from random import Random

import pytest

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.runtime.journal.fold import FoldedGroup
from raftlog.runtime.journal.operations import LogEnd
from raftlog.runtime.log.group_recovery import RecoveredGroup, recover_group
from raftlog.storage.compaction import CompactionBounds, find_clean_end
from raftlog.storage.segment_files import STAGED_SUFFIX
from raftlog.types import Offset
from tests.storage.compacting import PATH, Kept, KeyedLog, read_all
from tests.storage.test_compaction import check, check_chain

MERGING = CompactionBounds(900, 1000)


def keyed_log() -> KeyedLog:
    """Return a log with four closed segments: changing keys, a deleted key, records without a key."""
    keyed = KeyedLog()
    for number in range(4):
        for _ in range(2):
            keyed.append([(b"%d" % each, b"v%d" % number * 20) for each in range(4)])
        keyed.append([(b"gone", b"x" if number < 2 else None), (b"only %d" % number, b"x"), (None, b"no key")])
        keyed.control()
        keyed.roll()
    keyed.append([(b"0", b"above")])
    keyed.settle()
    return keyed


def recover(disk: SimulatedDisk, end: LogEnd) -> RecoveredGroup:
    folded = FoldedGroup(b"")
    folded.restart_at(end, Offset(0), None)
    folded.drop_after_gap()
    return recover_group(disk, PATH, folded, None)


def end_of(keyed: KeyedLog) -> LogEnd:
    active = keyed.log.active
    return LogEnd(Offset(active.base_offset), active.row_bytes(active.rows - 1, 1))


class Interrupted(Exception):
    """Simulated crash of the process."""


class Interruptions:
    """Disk operations that crash the process before the nth change of a name or sync."""

    def __init__(self, disk: SimulatedDisk, after: int) -> None:
        self.left = after
        for name in ("sync", "rename", "unlink", "open"):
            setattr(disk, name, self._count_call(getattr(disk, name)))

    def _count_call(self, call):  # type: ignore[no-untyped-def]
        def counted(*arguments, **named):  # type: ignore[no-untyped-def]
            if self.left == 0:
                raise Interrupted
            self.left -= 1
            return call(*arguments, **named)

        return counted


def surviving_records(records: list[Kept]) -> dict[bytes | None, bytes | None]:
    newest = {key: value for _, key, value, _ in records if key is not None}
    return {key: value for key, value in newest.items() if value is not None}


@pytest.mark.parametrize(("kind", "second"), [("power", False), ("power", True), ("kill", True)])
def test_the_newest_of_each_key_survives_a_crash_after_any_step(kind: str, second: bool) -> None:
    """Repeated interruptions let the next opening continue; the end equals the result of a single run."""
    after = 0
    while True:
        keyed = keyed_log()
        if second:
            keyed.compact(MERGING)
            keyed.append([(b"0", b"newer"), (b"1", None), (b"gone", None), (b"last", b"x")])
            keyed.roll()
            keyed.append([(b"2", b"above")])
        keyed.settle()
        end, newest = end_of(keyed), {record[1]: record for record in keyed.records if record[1] is not None}
        dead = {key for key, record in newest.items() if record[2] is None}
        keyed.disk.random = Random(after)
        plain = {name: getattr(keyed.disk, name) for name in ("sync", "rename", "unlink", "open")}
        compaction = keyed.compaction(MERGING)
        Interruptions(keyed.disk, after)
        is_done = False
        run = compaction.run()
        try:
            for step in run:
                keyed.disk.sync(step.files, step.directories)
            is_done = True
        except Interrupted:
            with suppress(Interrupted):  # nothing is tidied by who is dead
                run.close()
        for name, call in plain.items():
            setattr(keyed.disk, name, call)
        if kind == "power":
            keyed.disk.power_loss()
        else:
            keyed.disk.process_crash()
        recovered = recover(keyed.disk, end)
        keyed.log = recovered.log
        assert recovered.damage == ()
        assert not [name for name in keyed.disk.list_directory(PATH) if name.endswith(STAGED_SUFFIX)]
        found = read_all(keyed.log)
        assert {record[1]: record for record in found if record[1] is not None and record[1] not in dead} == {
            key: record for key, record in newest.items() if key not in dead
        }
        assert not dead & surviving_records(found).keys(), "nothing that was deleted comes back"
        check_chain(keyed.log)
        keyed.compact(MERGING) if find_clean_end(keyed.log) < keyed.mark else None
        check(keyed)
        if is_done:
            return
        after += 1


def compacted_log() -> KeyedLog:
    keyed = keyed_log()
    keyed.compact(MERGING)
    keyed.settle()
    assert keyed.log.segments[0].missing, "it has gaps"
    return keyed


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_lost_indexes_of_compacted_files_are_rebuilt(suffix: str) -> None:
    keyed = compacted_log()
    before = keyed.disk.snapshot()
    for segment in keyed.log.segments:
        keyed.disk.unlink(segment.files.log.path.removesuffix(".log") + suffix)
    keyed.log = recover(keyed.disk, end_of(keyed)).log
    keyed.settle()
    check(keyed)
    if suffix == ".index":
        assert {name: data for name, data in keyed.disk.snapshot().items() if "time" not in name} == {
            name: data for name, data in before.items() if "time" not in name
        }


@pytest.mark.parametrize("at", ["roll", "inside", "last"])
def test_a_damaged_batch_keeps_its_place_and_later_batches_stay(at: str) -> None:
    """The batch is read as damaged, and no batch after it is discarded."""
    keyed = compacted_log()
    end, segment = end_of(keyed), keyed.log.segments[0]
    number = {"roll": 0, "inside": 1, "last": segment.rows - 1}[at]
    keyed.disk.flip_bit(segment.files.log.path, segment.row(number).position + 70, 3)
    recovered = recover(keyed.disk, end)
    assert recovered.lost_from is None
    assert recovered.log.last_index == keyed.log.last_index
    assert [each.next_index for each in recovered.log.segments] == [each.next_index for each in keyed.log.segments]
    behind = keyed.log.segments[1].base_offset
    assert read_all(recovered.log, behind) == [record for record in keyed.expected_records() if record[0] >= behind]


def test_a_gap_above_the_compaction_mark_of_its_file_is_damage() -> None:
    keyed = compacted_log()
    segment = keyed.log.segments[0]
    for other in keyed.log.segments:
        keyed.disk.unlink(other.files.index.path)
    file, other_roll = segment.files.log, keyed_log().log.segments[0]
    roll = other_roll.files.log.read(0, other_roll.row(0).length)
    file.write(0, [roll])  # the roll as it was before compaction, which allows no gaps
    recovered = recover(keyed.disk, end_of(keyed))
    assert recovered.lost_from is not None
