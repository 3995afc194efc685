"""Storage under adversity: full disks, failed syncs, repeated power losses, damaged rows, rolls and lengths."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import raftlog
from raftlog.errors import LogClosed, StorageFull, SyncFailed
from raftlog.records import build_batch
from raftlog.storage.dump import dump_file
from raftlog.storage.real_disk import RealDisk
from raftlog.storage.repair import repair_log
from raftlog.storage.rows import ROW_SIZE
from raftlog.storage.verify import verify_log
from tests.storage.test_recovery import FIRST, PATH, LogFixture

RECORDS = 3


class PowerCut(BaseException):
    """Simulated power loss during a sync."""


def fill_disk(f: LogFixture, room: int = 0) -> None:
    """Fill the disk until `room` bytes are free."""
    f.disk.capacity_bytes = sum(map(len, f.disk.snapshot().values())) + room


def flush(f: LogFixture) -> None:
    f.log.flush()
    f.disk.complete_all()


def lowest_refused(f: LogFixture) -> int:
    """Return the lowest refused index; check that every refusal reports a full disk."""
    assert all(isinstance(error, StorageFull) for _, error in f.refused)
    return min((index for index, _ in f.refused), default=1 << 60)


def append_several(f: LogFixture, count: int, size: int = 100) -> None:
    """Append batches of `RECORDS` records each, durably."""
    for _ in range(count):
        end = f.log.log_end_offset
        values = [offset.to_bytes(8) + b"v" * size for offset in range(end, end + RECORDS)]
        f.log.append([build_batch(values, now_ms=f.now)])
    flush(f)


def segment_files(f: LogFixture) -> list[str]:
    return [f"{PATH}/{name}" for name in f.disk.list_directory(PATH) if name.endswith(".log")]


# a full disk


@pytest.mark.parametrize("room", range(0, 7200, 400))
def test_on_a_full_disk_every_append_of_a_flush_over_a_roll_is_durable_or_refused(room: int) -> None:
    f = LogFixture(segment_bytes=4096)
    appended = [f.log.append([build_batch([bytes(8) + b"a" * 3000], now_ms=1)]) for _ in range(2)]
    assert f.log.segment_count == 2
    fill_disk(f, room)
    flush(f)
    assert not f.log.is_flushing
    for append in appended:
        assert (append.index <= f.log.durable_index) != (append.index >= lowest_refused(f))
    kept = len(f.values())
    assert kept == sum(append.index <= f.log.durable_index for append in appended)
    f.disk.capacity_bytes = None
    f.append_durably(1)
    assert f.values()[kept:] == [kept], "offsets of refused appends are given out again, without a gap"
    assert f.log.pending_bytes == 0
    f.disk.power_loss()
    assert f.open().damage is None
    assert len(f.values()) == kept + 1


@pytest.mark.parametrize("room", range(0, 7200, 400))
def test_no_batch_of_a_refused_append_becomes_readable(room: int) -> None:
    f = LogFixture(segment_bytes=4096)
    batches = [build_batch([offset.to_bytes(8) + b"b" * 3000], now_ms=1) for offset in range(2)]
    append = f.log.append(batches)
    assert f.log.segment_count == 2
    fill_disk(f, room)
    flush(f)
    f.disk.capacity_bytes = None
    kept = 0 if append.index >= lowest_refused(f) else 2
    f.append_durably(1)
    assert f.values() == list(range(kept + 1))
    f.kill()
    assert f.values() == list(range(kept + 1))


def test_a_cut_with_an_unwritable_waiting_batch_drops_nothing_else() -> None:
    f = LogFixture()
    f.append_durably(2)
    f.append(1, size=1000)
    fill_disk(f)
    f.log.cut(2)
    assert lowest_refused(f) == 4
    assert f.values() == [0, 1]
    assert f.log.log_end_offset == 2
    f.disk.power_loss()
    f.open()
    assert f.values() == [0, 1]


def test_a_log_continues_after_a_cut_on_a_full_disk_during_a_flush() -> None:
    f = LogFixture()
    f.append_durably(1)
    f.append(1)
    f.log.flush()
    f.append(1, size=1000)
    fill_disk(f)
    f.log.cut(1)
    f.disk.complete_all()
    assert f.values() == [0]
    f.disk.capacity_bytes = None
    f.append_durably(2)
    assert f.values() == [0, 1, 2]


def test_a_refused_append_does_not_affect_lookups_by_time() -> None:
    f = LogFixture()
    start = f.now
    f.append_durably(1, size=70_000)
    f.now = start + 100
    f.append(1, size=5000)
    fill_disk(f)
    flush(f)
    assert lowest_refused(f) == 3
    f.disk.capacity_bytes = None
    for after in (500, 900):
        f.now = start + after
        f.append_durably(1)
    for _ in range(2):
        expected = {-1: (0, 0), 0: (0, 0), 1: (1, 500), 300: (1, 500), 501: (2, 900)}
        for after, (offset, found) in expected.items():
            assert f.log.offset_for_timestamp(start + after) == (offset, start + found)
        assert f.log.offset_for_timestamp(start + 901) is None
        f.log.close()
        f.open()


def test_a_relaxed_append_during_a_flush_is_acknowledged_after_it() -> None:
    f = LogFixture(flush_messages=10, flush_ms=3_600_000)
    f.append(10)
    assert f.log.flush_if_due()
    f.append(1)
    assert not f.log.flush_if_due()
    assert f.log.acknowledged_index == f.log.last_index - 1
    f.disk.complete_all()
    assert f.log.acknowledged_index == f.log.last_index == f.log.durable_index + 1
    f.disk.process_crash()
    f.open()
    assert f.values() == list(range(11))


# a sync that fails


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("act", [lambda log: log.cut(1), lambda log: log.trim(1)], ids=["cut", "trim"])
def test_a_failed_sync_in_a_cut_or_trim_stops_the_log_without_answers(
    seed: int, act: Callable[[raftlog.storage.lone_log.LoneLog], object]
) -> None:
    f = LogFixture(seed)
    f.append_durably(1)
    f.append(1, size=6000)
    f.log.flush()
    durable = f.log.durable_index
    f.disk.fail_sync(1)
    with pytest.raises(SyncFailed):
        act(f.log)
    assert isinstance(f.log.failure, SyncFailed)
    f.disk.complete_all()
    assert f.log.durable_index == durable, "the flush under way answers no caller any more"
    with pytest.raises(SyncFailed):
        f.append(1)
    f.disk.power_loss()
    assert f.open().damage is None
    assert f.log.high_watermark >= 1


def test_a_close_whose_sync_fails_raises_and_releases_the_directory() -> None:
    f = LogFixture()
    f.append_durably(1)
    f.append(1)
    f.log.flush()
    f.disk.fail_sync(1)
    with pytest.raises(SyncFailed):
        f.log.close()
    durable = f.log.durable_index
    f.disk.complete_all()
    assert f.log.durable_index == durable
    with pytest.raises(LogClosed):
        f.append(1)
    f.log.close()
    f.open()
    assert f.values()[:1] == [0]


# power


@pytest.mark.parametrize("seed", range(30))
def test_a_power_loss_during_a_reopening_after_a_kill_is_no_damage(seed: int) -> None:
    f = LogFixture(seed)
    f.append_durably(1)
    f.append(6, size=4500)
    f.log._log.write()
    f.disk.process_crash()
    real_sync = f.disk.sync

    def cut(*_: object) -> None:
        raise PowerCut

    f.disk.sync = cut  # type: ignore[method-assign]
    with suppress(PowerCut):
        f.open()
    f.disk.sync = real_sync  # type: ignore[method-assign]
    f.disk.power_loss()
    assert f.open().damage is None
    assert f.values() == list(range(f.log.log_end_offset))
    assert f.log.log_end_offset >= 1


@pytest.mark.parametrize("seed", range(12))
def test_a_trim_survives_a_power_loss_also_with_a_new_checkpoint(seed: int) -> None:
    f = LogFixture(seed)
    f.append_durably(10)
    f.log.close()
    f.disk.unlink(f"{PATH}/.raftlog/checkpoint")
    f.disk.sync([], [f"{PATH}/.raftlog"])
    f.open()
    assert f.log.trim(7) == 7
    f.disk.power_loss()
    f.open()
    assert f.log.log_start_offset == 7
    assert f.values() == [7, 8, 9]


# damage


def damage_roll(f: LogFixture, where: str) -> None:
    if where == "zeroed":
        roll_size, _ = f.position_of(0)
        f.disk.open(f"{FIRST}.log").write(0, [bytes(roll_size)])
    else:
        f.disk.flip_bit(f"{FIRST}.log", {"payload": 0x60, "header": 0x20}[where], 0)


@pytest.mark.parametrize("where", ["payload", "header", "zeroed"])
def test_a_damaged_roll_loses_no_record(where: str) -> None:
    f = LogFixture(segment_bytes=8192)
    f.append_durably(100)
    group = f.log.group_id
    damage_roll(f, where)
    f.log.close()
    repaired = repair_log(f.disk, PATH, accept_loss=True)
    assert repaired.problems
    assert (repaired.lost, repaired.cut_from) == ([], None)
    assert repair_log(f.disk, PATH, accept_loss=True).problems == []
    log = f.open()
    assert (log.damage, log.group_id) == (None, group)
    assert f.values() == list(range(100))
    f.append_durably(1)
    assert f.values() == list(range(101))


def damage_rows(f: LogFixture, first: int, count: int, flipped: bool) -> None:
    """Zero neighbouring index rows, or flip the highest bit of their positions."""
    f.log.close()
    index = f.disk.open(f"{FIRST}.index")
    for row in range(first, min(first + count, f.log._log.active.rows)):
        if flipped:
            f.disk.flip_bit(f"{FIRST}.index", row * ROW_SIZE + 24, 7)
        else:
            index.write(row * ROW_SIZE, [bytes(ROW_SIZE)])


@pytest.mark.parametrize("first", [0, 1, 50, 300])
@pytest.mark.parametrize("count", [1, 2, 90])
@pytest.mark.parametrize("flipped", [False, True], ids=["zeroed", "flipped"])
def test_neighbouring_damaged_rows_stop_neither_readers_nor_writers(first: int, count: int, flipped: bool) -> None:
    f = LogFixture()
    f.append_durably(300)
    damage_rows(f, first, count, flipped)
    assert not verify_log(f.disk, PATH).is_sound
    f.open()
    for start in (60, 49, 0, 299):
        assert f.values(start) == list(range(start, 300))
    assert f.log.damage is None
    f.append_durably(1)
    f.log.close()
    repaired = repair_log(f.disk, PATH, accept_loss=True)
    assert (repaired.lost, repaired.cut_from) == ([], None)
    f.open()
    assert f.values() == list(range(301))


@pytest.mark.parametrize("first", [0, 1, 50, 299])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("flipped", [False, True], ids=["zeroed", "flipped"])
def test_damaged_rows_do_not_mislead_lookups_by_time(first: int, count: int, flipped: bool) -> None:
    f = LogFixture()
    start = f.now
    for _ in range(300):
        f.append(1)
        f.now += 1
    flush(f)
    damage_rows(f, first, count, flipped)
    f.open()
    for offset in (0, 49, 50, 51, 299):
        assert f.log.offset_for_timestamp(start + offset) == (offset, start + offset)
    assert f.log.damage is None


def damage_batches(f: LogFixture, file: str, numbers: list[int]) -> list[tuple[int, int]]:
    """Flip a bit under the CRC in the headers of some batches of a file; negative numbers count from its end."""
    segment = f.log._log.segment_of_offset(int(file[-24:-4]))
    lost = []
    for number in numbers:
        row = segment.row(number % segment.rows)
        f.disk.flip_bit(file, row.position + 30, 0)
        lost.append((row.offset, row.offset + RECORDS))
    f.log.close()
    return lost


@pytest.mark.parametrize(("segment", "numbers"), [(0, [-1]), (-1, [-1]), (0, [3, 4]), (0, [-2, -1]), (-1, [-2, -1])])
def test_a_repair_reports_lost_offsets_and_does_not_reuse_them(segment: int, numbers: list[int]) -> None:
    f = LogFixture(segment_bytes=8192)
    append_several(f, 100)
    end = f.log.log_end_offset
    lost = damage_batches(f, segment_files(f)[segment], numbers)
    repaired = repair_log(f.disk, PATH, accept_loss=True)
    assert len(repaired.problems) == len(numbers)
    assert repaired.cut_from is None
    assert [first for first, _ in repaired.lost] == [first for first, _ in lost]
    assert all(given >= asked for (_, given), (_, asked) in zip(repaired.lost, lost, strict=True))
    assert repair_log(f.disk, PATH, accept_loss=True).problems == []
    log = f.open()
    assert log.damage is None
    assert log.log_end_offset >= end
    gone = {offset for first, after in lost for offset in range(first, after)}
    assert f.values() == [offset for offset in range(end) if offset not in gone]
    after = log.log_end_offset
    f.append_durably(1)
    assert f.values()[-1] == after >= end


def test_a_repair_does_not_reuse_offsets_of_a_missing_synced_batch() -> None:
    f = LogFixture(segment_bytes=8192)
    append_several(f, 100)
    end = f.log.log_end_offset
    newest = segment_files(f)[-1]
    last = f.log._log.active.row(f.log._log.active.rows - 1)
    f.log.close()
    f.disk.open(newest).truncate(last.position)
    repaired = repair_log(f.disk, PATH, accept_loss=True)
    [(first, after)] = repaired.lost
    assert (first, after >= end) == (end - RECORDS, True)
    assert repair_log(f.disk, PATH, accept_loss=True).problems == []
    f.open()
    assert f.log.damage is None
    assert f.values() == list(range(end - RECORDS))
    assert f.log.append([build_batch([b"new"], now_ms=1)]).base_offset >= end


def damage_row_length(stem: Path) -> None:
    file = stem.with_suffix(".index")
    index = bytearray(file.read_bytes())
    index[3 * ROW_SIZE + 32 : 3 * ROW_SIZE + 36] = b"\xff\xff\xff\xf0"
    file.write_bytes(index)


def damage_header_length(stem: Path) -> None:
    with raftlog.Log.open(stem.parent) as log:
        segment = log._log._log.active
        position = segment.row(1).position
    file = stem.with_suffix(".log")
    data = bytearray(file.read_bytes())
    data[position + 8 : position + 12] = b"\x7f\xff\xff\xf0"
    file.write_bytes(data)
    stem.with_suffix(".index").write_bytes(b"")


@pytest.mark.parametrize("rot", [damage_row_length, damage_header_length])
def test_a_damaged_length_is_never_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rot: Callable[[Path], None]
) -> None:
    path = tmp_path / "log"
    with raftlog.Log.open(path) as log:
        for _ in range(5):
            log.append([b"v"])
    stem = path / f"{0:020d}"
    rot(stem)
    real = os.pread

    def fallocate_bounded(descriptor: int, length: int, position: int) -> bytes:
        assert length <= 16 << 20, f"a read of {length} bytes takes the memory first"
        return real(descriptor, length, position)

    monkeypatch.setattr(os, "pread", fallocate_bounded)
    disk = RealDisk(lambda job: job())
    assert not verify_log(disk, str(path)).is_sound
    assert list(dump_file(disk, f"{stem}.log"))
    assert repair_log(disk, str(path), accept_loss=False).problems
    with raftlog.Log.open(path) as log:
        if rot is damage_row_length:
            assert log.offset_at(timestamp=1) == 0
            assert [record.offset for record in log.read()] == list(range(5))
        else:
            assert log.damage is not None
