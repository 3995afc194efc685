"""Recovery rules on the simulated disk: torn or damaged batches, missing files, metadata, interrupted work."""

import errno
from contextlib import suppress
from random import Random

import pytest

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.errors import (
    CorruptBatch,
    DirectoryLocked,
    FormatError,
    LogDamaged,
    SmallFileDamaged,
    StorageFull,
    SyncFailed,
)
from raftlog.records import build_batch, read_records
from raftlog.storage import directory
from raftlog.storage.lone_log import LoneLog
from raftlog.storage.repair import repair_log
from raftlog.storage.rows import ROW_SIZE
from raftlog.storage.verify import verify_log
from raftlog.topic_config import LogConfig

PATH = "/data/log"
FIRST = f"{PATH}/{0:020d}"
ROLL_SIZE = 200


class LogFixture:
    """Log on a simulated disk, with access to its files."""

    def __init__(self, seed: int = 1, **config: int) -> None:
        self.disk = SimulatedDisk(Random(seed))
        self.config = LogConfig(**config)
        self.now = 1_000_000
        self.refused: list[tuple[int, Exception]] = []
        self.log = self.open()

    def open(self, create: bool = True) -> LoneLog:
        """Open the log; collect refused indexes."""
        self.log = LoneLog.open(
            self.disk,
            PATH,
            self.config,
            clock=lambda: self.now,
            create=create,
            on_refused=lambda index, error: self.refused.append((index, error)),
        )
        return self.log

    def append(self, count: int, size: int = 100) -> None:
        for _ in range(count):
            value = self.log.log_end_offset.to_bytes(8) + b"v" * size
            self.log.append([build_batch([value], now_ms=self.now)])

    def append_durably(self, count: int, size: int = 100) -> None:
        self.append(count, size)
        self.log.flush()
        self.disk.complete_all()
        assert self.log.high_watermark == self.log.log_end_offset

    def values(self, start: int | None = None) -> list[int]:
        """Return the numbers of all records from `start` on."""
        found = []
        offset = self.log.log_start_offset if start is None else start
        while batches := self.log.read(offset, 1 << 20):
            for batch in batches:
                for record in read_records(batch):
                    found.append(int.from_bytes(record.value[:8]))
                    offset = record.offset + 1
        return found

    def kill(self) -> LoneLog:
        self.disk.process_crash()
        return self.open()

    def position_of(self, offset: int, name: str = FIRST) -> tuple[int, int]:
        """Return position and length of the batch at `offset`, read from its row."""
        segment = self.log._log.segment_of_offset(offset)
        row = segment.row(segment.find_row(offset))
        return row.position, row.length


def test_a_new_log_begins_with_a_roll_and_reopens_without_scanning() -> None:
    f = LogFixture()
    assert (f.log.log_start_offset, f.log.high_watermark, f.log.last_index) == (0, 0, 1)
    group = f.log.group_id
    f.append_durably(3)
    f.log.close()
    log = f.open(create=False)
    assert log.group_id == group
    assert log.report.batches_scanned == 0
    assert f.values() == [0, 1, 2]


def test_after_a_kill_only_batches_after_the_checkpoint_are_scanned() -> None:
    f = LogFixture()
    f.append_durably(10)
    f.log.checkpoint()
    f.append_durably(4)
    log = f.kill()
    assert log.report.batches_scanned == 4
    assert f.values() == list(range(14))


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_a_short_last_batch_without_a_row_is_torn_and_moved_aside(cut: int) -> None:
    f = LogFixture()
    f.append_durably(3)
    f.append(1)
    f.log._log.write()
    position, length = f.position_of(3)
    f.disk.process_crash()
    f.disk.open(f"{FIRST}.log").truncate(position + min(cut, length - 1))
    log = f.open()
    assert log.damage is None
    [torn] = log.report.torn
    assert (torn.file, torn.position) == (f"{FIRST}.log", position)
    assert len(f.disk.snapshot()[torn.kept_in]) == torn.bytes_cut == min(cut, length - 1)
    assert f.values() == [0, 1, 2]
    f.append_durably(2)
    f.kill()
    assert f.values() == [0, 1, 2, 3, 4]


def test_a_zeroed_block_in_an_unsynced_batch_is_torn() -> None:
    f = LogFixture()
    f.append_durably(1)
    f.append(1, size=20_000)
    f.append(1)
    f.log._log.write()
    f.disk.process_crash()
    f.disk.zero_page(f"{FIRST}.log", 2)
    log = f.open()
    assert log.damage is None
    assert f.values() == [0]
    assert log.report.torn[0].bytes_cut > 20_000


def test_a_flipped_bit_in_the_last_batch_is_damage_because_its_row_proves_the_sync() -> None:
    f = LogFixture()
    f.append_durably(3)
    position, length = f.position_of(2)
    f.disk.process_crash()
    f.disk.flip_bit(f"{FIRST}.log", position + length - 3, 1)
    log = f.open()
    assert log.damage is not None
    assert (log.damage.file, log.damage.position, log.damage.offset) == (f"{FIRST}.log", position, 2)
    assert log.report.torn == []
    with pytest.raises(LogDamaged, match="raftlog log recover"):
        f.append(1)
    assert [int.from_bytes(r.value[:8]) for b in log.read(0, 1) for r in read_records(b)] == [0]


def test_a_lost_synced_tail_is_damage() -> None:
    f = LogFixture()
    f.append_durably(5)
    position, _ = f.position_of(3)
    f.disk.process_crash()
    f.disk.open(f"{FIRST}.log").truncate(position)
    assert f.open().damage is not None
    assert f.disk.snapshot()[f"{FIRST}.log"], "nothing was cut"


def test_a_zeroed_block_in_a_synced_batch_is_damage_and_later_offsets_stay_readable() -> None:
    f = LogFixture()
    f.append_durably(1, size=30_000)
    f.append_durably(4)
    f.disk.process_crash()
    f.disk.zero_page(f"{FIRST}.log", 1)
    log = f.open()
    assert log.damage is not None
    assert log.damage.offset == 0
    with pytest.raises(CorruptBatch, match="CRC"):
        log.read(0, 100)
    assert f.values(1) == [1, 2, 3, 4]


@pytest.mark.parametrize("field", [0, 9, 13, 16, 18, 30, 100])
def test_any_flip_below_the_checkpoint_is_detected_by_read_scrub_and_verify(field: int) -> None:
    f = LogFixture()
    f.append_durably(10)
    f.log.close()
    f.open()
    position, _ = f.position_of(4)
    f.disk.flip_bit(f"{FIRST}.log", position + field, 2)
    log = f.kill()
    assert log.damage is None, "below the checkpoint nothing is read on opening"
    with pytest.raises(CorruptBatch) as found:
        log.read(4, 1)
    assert (found.value.position, found.value.offset) == (position, 4)
    [problem] = verify_log(f.disk, PATH).problems
    assert (problem.position, problem.offset) == (position, 4)
    f.kill()
    progress = f.log.scrub_slice(1 << 20)
    assert progress.damage is not None
    assert progress.damage.position == position
    with pytest.raises(LogDamaged):
        f.append(1)
    assert f.values(5) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("row", range(8))
@pytest.mark.parametrize("field", [0, 7, 15, 23, 31, 35, 39, 43])
def test_a_damaged_index_row_is_repaired_on_read(row: int, field: int) -> None:
    f = LogFixture()
    f.append_durably(7)
    f.log.close()
    f.open()
    before = f.disk.snapshot()[f"{FIRST}.index"]
    f.disk.flip_bit(f"{FIRST}.index", row * ROW_SIZE + field, 3)
    assert f.values() == list(range(7))
    for offset in range(7):
        assert f.values(offset) == list(range(offset, 7))
    while not f.log.scrub_slice(100).has_finished:
        assert f.log.damage is None
    assert f.disk.snapshot()[f"{FIRST}.index"] == before
    assert f.log.damage is None


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_lost_index_file_is_rebuilt(suffix: str) -> None:
    f = LogFixture(segment_bytes=4096)
    f.append_durably(60)
    f.log.close()
    whole = f.disk.snapshot()[FIRST + suffix]
    f.disk.unlink(FIRST + suffix)
    log = f.open()
    assert log.damage is None
    assert f.values() == list(range(60))
    if suffix == ".index":
        assert f.disk.snapshot()[FIRST + suffix] == whole
    assert log.offset_for_timestamp(1) == (0, 1_000_000)


def test_a_lost_checkpoint_costs_only_a_scan() -> None:
    f = LogFixture(segment_bytes=4096)
    f.append_durably(60)
    f.log.trim(50)
    f.append_durably(60)
    f.log.close()
    f.disk.unlink(f"{PATH}/.raftlog/checkpoint")
    log = f.open()
    assert log.damage is None
    assert log.report.batches_scanned > 60
    assert f.values(60) == list(range(60, 120))


@pytest.mark.parametrize("slot", [0, 1])
def test_a_torn_checkpoint_slot_leaves_the_other_one(slot: int) -> None:
    f = LogFixture()
    for _ in range(3):
        f.append_durably(5)
        f.log.checkpoint()
    f.disk.process_crash()
    f.disk.zero_page(f"{PATH}/.raftlog/checkpoint", slot)
    log = f.open()
    assert log.damage is None
    assert log.report.batches_scanned in (0, 5)
    assert f.values() == list(range(15))


def test_a_lost_meta_file_is_rewritten_from_the_first_roll() -> None:
    f = LogFixture()
    group = f.log.group_id
    f.append_durably(2)
    f.log.close()
    f.disk.unlink(f"{PATH}/.raftlog/meta")
    assert f.open().group_id == group
    assert f.values() == [0, 1]


def test_a_damaged_meta_file_is_rewritten_from_the_first_entry() -> None:
    f = LogFixture()
    f.append_durably(2)
    group_id = f.log.group_id
    f.log.close()
    f.disk.flip_bit(f"{PATH}/.raftlog/meta", 60, 1)
    f.open()
    assert f.values() == [0, 1]
    assert f.log.group_id == group_id


def test_a_damaged_meta_file_without_an_entry_is_refused_and_nothing_is_changed() -> None:
    f = LogFixture()
    f.log.close()
    f.disk.flip_bit(f"{PATH}/.raftlog/meta", 60, 1)
    for name in f.disk.list_directory(PATH):
        if name != ".raftlog":
            f.disk.unlink(f"{PATH}/{name}")
    before = f.disk.snapshot()
    with pytest.raises(SmallFileDamaged, match=r"/\.raftlog/meta is damaged.*restore it from a copy"):
        f.open()
    assert {name: data for name, data in f.disk.snapshot().items() if data} == {n: d for n, d in before.items() if d}


@pytest.mark.parametrize("version", [1, 3])
def test_a_directory_of_another_version_is_refused_with_both_versions(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    f = LogFixture()
    f.log.close()
    with monkeypatch.context() as other:
        other.setattr(directory, "FORMAT_VERSION", version)
        directory.write_meta(f.disk, PATH, directory.LONE_LOG, {})
    with pytest.raises(FormatError, match=rf"format version {version}.*reads format version 2"):
        f.open()


def test_a_foreign_directory_is_refused() -> None:
    disk = SimulatedDisk(Random(1))
    disk.make_directory("/home")
    disk.open("/home/photo.jpg", create=True)
    with pytest.raises(FormatError, match="not a raftlog log"):
        LoneLog.open(disk, "/home", LogConfig(), clock=lambda: 0)
    with pytest.raises(FormatError, match="does not exist"):
        LoneLog.open(disk, "/nowhere", LogConfig(), clock=lambda: 0, create=False)


def test_a_second_opener_is_refused() -> None:
    f = LogFixture()
    with pytest.raises(DirectoryLocked, match="another process"):
        LoneLog.open(f.disk, PATH, f.config, clock=lambda: 0)


def test_a_missing_segment_in_the_middle_is_damage_and_the_rest_is_readable() -> None:
    f = LogFixture(segment_bytes=4096)
    f.append_durably(90)
    f.log.close()
    bases = sorted(name for name in f.disk.list_directory(PATH) if name.endswith(".log"))
    lost = bases[1]
    f.disk.unlink(f"{PATH}/{lost}")
    log = f.open()
    assert log.damage is not None
    start, end = int(lost[:20]), int(bases[2][:20])
    with pytest.raises(CorruptBatch, match="missing"):
        log.read(start, 100)
    assert f.values(end) == list(range(end, 90))
    with pytest.raises(LogDamaged):
        f.append(1)


def test_missing_segments_are_refused_and_not_taken_for_a_new_log() -> None:
    f = LogFixture()
    f.append_durably(3)
    f.log.close()
    for name in f.disk.list_directory(PATH):
        if not name.startswith("."):
            f.disk.unlink(f"{PATH}/{name}")
    with pytest.raises(FormatError, match="lost its segment files"):
        f.open()


@pytest.mark.parametrize("seed", range(60))
def test_a_creation_interrupted_by_a_power_loss_is_completed(seed: int) -> None:
    """The power fails at each sync of the creation, with many outcomes for unsynced data."""
    disk = SimulatedDisk(Random(seed))

    class PowerCutError(Exception):
        pass

    real_sync, left = disk.sync, seed % 12

    def sync(*args: object) -> None:
        nonlocal left
        if left == 0:
            raise PowerCutError
        left -= 1
        real_sync(*args)  # type: ignore[arg-type]

    disk.sync = sync  # type: ignore[method-assign]
    with suppress(PowerCutError):
        LoneLog.open(disk, PATH, LogConfig(), clock=lambda: 5)
    disk.sync = real_sync  # type: ignore[method-assign]
    disk.power_loss()
    log = LoneLog.open(disk, PATH, LogConfig(), clock=lambda: 6)
    assert (log.damage, log.log_end_offset, log.last_index) == (None, 0, 1)


def test_a_full_disk_refuses_appends_serves_reads_and_recovers() -> None:
    f = LogFixture(segment_bytes=64 * 1024)
    f.append_durably(20, size=1000)
    used = sum(len(data) for data in f.disk.snapshot().values())
    f.disk.capacity_bytes = used + 3000
    f.append(5, size=1000)
    f.log.flush()
    f.disk.complete_all()
    [(index, error)] = f.refused
    assert isinstance(error, StorageFull)
    assert error.outcome == "failed"
    assert index == 22
    assert f.log.failure is None
    assert f.values() == list(range(20))
    assert f.log.log_end_offset == 20
    f.disk.capacity_bytes = None
    f.append_durably(5)
    f.kill()
    assert f.values() == list(range(25))


def test_trim_works_on_a_full_disk_and_frees_it() -> None:
    f = LogFixture(segment_bytes=16 * 1024)
    f.append_durably(100, size=1000)
    f.disk.capacity_bytes = sum(len(data) for data in f.disk.snapshot().values())
    f.append(1, size=1000)
    f.log.flush()
    assert len(f.refused) == 1
    assert f.log.trim(80) == 80
    f.append_durably(10, size=1000)
    assert f.values() == list(range(80, 110))


def test_a_failed_sync_is_never_retried() -> None:
    f = LogFixture()
    f.append_durably(3)
    f.append(1)
    f.disk.fail_sync()
    f.log.flush()
    f.disk.complete_all()
    assert isinstance(f.log.failure, SyncFailed)
    assert f.log.failure.outcome == "unknown"
    syncs = f.disk.sync_count
    with pytest.raises(SyncFailed):
        f.append(1)
    f.log.flush()
    assert (f.disk.pending_syncs, f.disk.sync_count) == (0, syncs)
    assert f.log.high_watermark == 3
    f.log.close()
    f.disk.power_loss()
    f.open()
    assert f.values()[:3] == [0, 1, 2]


def test_a_read_error_is_raised_and_changes_nothing() -> None:
    f = LogFixture()
    f.append_durably(3)
    position, _ = f.position_of(1)
    f.disk.fail_read(f"{FIRST}.log", position)
    with pytest.raises(OSError, match=str(errno.EIO)):
        f.log.read(1, 10)
    assert f.log.failure is None


def test_a_sync_completed_after_a_cut_is_ignored() -> None:
    f = LogFixture()
    f.append_durably(2)
    f.append(1)
    f.log.flush()
    f.log.cut(2)
    f.append(1)
    f.log.flush()
    assert f.disk.pending_syncs == 2
    f.disk.complete_next()
    assert f.log.high_watermark == 2, "the old sync does not vouch for the new batch"
    f.disk.complete_next()
    assert f.log.high_watermark == 3


def test_repair_replaces_damage_by_gaps_and_keeps_the_bytes() -> None:
    f = LogFixture(segment_bytes=8192)
    f.append_durably(100)
    f.log.close()
    f.open()
    damaged = {}
    for offset in (3, 4, 77):
        segment = f.log._log.segment_of_offset(offset)
        row = segment.row(segment.find_row(offset))
        f.disk.flip_bit(segment.files.log.path, row.position + 80, 1)
        damaged[offset] = bytes(segment.files.log.read(row.position, row.length))
    f.disk.process_crash()
    dry = repair_log(f.disk, PATH, accept_loss=False)
    assert (dry.done, dry.lost, dry.cut_from) == (False, [(3, 4), (4, 5), (77, 78)], None)
    assert len(verify_log(f.disk, PATH).problems) == 3
    done = repair_log(f.disk, PATH, accept_loss=True)
    assert done.done
    kept = [f.disk.snapshot()[name] for name in done.kept_in]
    assert sorted(kept) == sorted(damaged.values())
    log = f.open()
    assert log.damage is None
    assert f.values() == [offset for offset in range(100) if offset not in damaged]
    f.append_durably(5)
    assert verify_log(f.disk, PATH).is_sound
    f.kill()
    assert f.values()[-5:] == [100, 101, 102, 103, 104]


@pytest.mark.parametrize("steps", range(14))
def test_an_interrupted_repair_can_be_rerun(steps: int) -> None:
    f = LogFixture(seed=steps, segment_bytes=8192)
    f.append_durably(50)
    f.log.close()
    f.open()
    position, _ = f.position_of(3)
    f.disk.process_crash()
    f.disk.flip_bit(f"{FIRST}.log", position + 80, 1)
    real_sync, left = f.disk.sync, steps

    def sync(*args: object) -> None:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        real_sync(*args)  # type: ignore[arg-type]

    f.disk.sync = sync  # type: ignore[method-assign]
    with suppress(KeyboardInterrupt):
        repair_log(f.disk, PATH, accept_loss=True)
    f.disk.sync = real_sync  # type: ignore[method-assign]
    f.disk.power_loss()
    repair_log(f.disk, PATH, accept_loss=True)
    log = f.open()
    assert log.damage is None
    assert f.values() == [offset for offset in range(50) if offset != 3]


def test_retention_by_age_uses_the_later_of_record_time_and_next_roll() -> None:
    f = LogFixture(segment_bytes=4096, retention_ms=10_000)
    f.append_durably(30)
    f.now += 5_000
    f.append_durably(30)
    assert f.log.clean() == 0
    f.now += 6_000
    assert f.log.clean() > 0
    start = f.log.log_start_offset
    assert 0 < start <= 30
    f.now += 60_000
    f.log.clean()
    assert f.log.segment_count == 1, "the active segment stays"
    assert f.log.log_start_offset > start
    f.kill()
    assert f.values() == list(range(f.log.log_start_offset, 60))


def test_retention_does_not_trust_a_clients_old_clock() -> None:
    f = LogFixture(segment_bytes=4096, retention_ms=10_000)
    for _ in range(60):
        f.log.append([build_batch([b"x" * 200], now_ms=1)])
    f.log.flush()
    f.disk.complete_all()
    assert f.log.clean() == 0


def test_retention_by_bytes_keeps_at_least_the_configured_size() -> None:
    f = LogFixture(segment_bytes=4096, retention_bytes=10_000)
    f.append_durably(200)
    f.log.clean()
    assert 10_000 <= f.log.size_bytes < 10_000 + 4096


def test_segments_roll_by_bytes_by_age_and_by_rows() -> None:
    by_bytes = LogFixture(segment_bytes=4096)
    by_bytes.append_durably(60)
    assert by_bytes.log.segment_count > 2
    by_rows = LogFixture(segment_index_bytes=4096)
    by_rows.append_durably(200)
    assert by_rows.log.segment_count == 3
    by_age = LogFixture(segment_ms=1000)
    by_age.append_durably(2)
    by_age.now += 1000
    assert by_age.log.segment_count == 1
    by_age.append_durably(1)
    assert by_age.log.segment_count == 2


@pytest.mark.parametrize("field", [0, 7, 9, 11, 12, 15, 16])
def test_a_damaged_header_is_restored_from_its_row(field: int) -> None:
    f = LogFixture()
    f.append_durably(5)
    position, _ = f.position_of(2)
    before = f.disk.snapshot()[f"{FIRST}.log"]
    f.disk.process_crash()
    f.disk.flip_bit(f"{FIRST}.log", position + field, 0)
    done = repair_log(f.disk, PATH, accept_loss=True)
    assert (done.done, done.lost, done.cut_from) == (True, [], None)
    assert f.disk.snapshot()[f"{FIRST}.log"] == before
    assert f.open().damage is None
    assert f.values() == list(range(5))


def test_tools_change_nothing_and_report_a_missing_end_of_a_log() -> None:
    f = LogFixture(segment_bytes=4096)
    f.append_durably(60)
    f.log.close()
    newest = [name for name in f.disk.list_directory(PATH) if name.endswith(".log")][-1]
    f.disk.unlink(f"{FIRST}.index")
    before = f.disk.snapshot()
    assert verify_log(f.disk, PATH).is_sound
    assert f.disk.snapshot() == before
    f.disk.unlink(f"{PATH}/{newest}")
    [problem] = verify_log(f.disk, PATH).problems
    assert problem.offset == int(newest[:20])


def test_a_gap_at_the_end_of_the_log_has_no_records() -> None:
    f = LogFixture()
    f.append_durably(5)
    position, _ = f.position_of(4)
    f.disk.process_crash()
    f.disk.flip_bit(f"{FIRST}.log", position + 80, 1)
    assert repair_log(f.disk, PATH, accept_loss=True).lost == [(4, 5)]
    log = f.open()
    assert log.damage is None
    assert f.values() == [0, 1, 2, 3]
    f.append_durably(1)
    assert f.values() == [0, 1, 2, 3, 5], "a lost offset is not given out again"
