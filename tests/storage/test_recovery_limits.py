"""Data that the opening of a single log must not accept, and data that it must not discard."""

import pytest

from raftlog.storage.checkpoint import SLOT_SIZE, read_checkpoint
from raftlog.storage.repair import repair_log
from raftlog.storage.rows import ROW_SIZE
from tests.storage.test_recovery import FIRST, PATH, LogFixture

CHECKPOINT = f"{PATH}/.raftlog/checkpoint"


def make_two_segments(missing_bytes: int) -> tuple[LogFixture, str]:
    """Return a log without a checkpoint and its second file; the first lacks its last row and bytes."""
    f = LogFixture(segment_bytes=4096)
    f.append_durably(40)
    second = f"{PATH}/{f.log._log.segments[1].base_offset:020d}"
    last = f.log._log.segments[0].row(f.log._log.segments[0].rows - 1)
    f.disk.process_crash()
    f.disk.unlink(CHECKPOINT)
    f.disk.open(f"{FIRST}.log").truncate(last.end - (missing_bytes or last.length))
    index = f.disk.open(f"{FIRST}.index")
    index.truncate(index.size() - ROW_SIZE)
    return f, second


def test_a_missing_end_before_a_synced_file_is_damage_and_is_not_cut() -> None:
    f, _ = make_two_segments(missing_bytes=30)
    before = f.disk.snapshot()[f"{FIRST}.log"]
    log = f.open()
    assert log.damage is not None
    assert log.report.torn == []
    assert f.disk.snapshot()[f"{FIRST}.log"] == before


def test_a_synced_file_after_a_missing_one_is_kept_and_read() -> None:
    f, second = make_two_segments(missing_bytes=0)
    before = f.disk.snapshot()[f"{second}.log"]
    log = f.open()
    assert log.damage is not None
    assert f.disk.snapshot()[f"{second}.log"] == before
    base = int(second[-20:])
    assert f.values(base)[:3] == [base, base + 1, base + 2]


def test_a_missing_first_file_is_damage() -> None:
    f = LogFixture(segment_bytes=4096)
    f.append_durably(80)
    f.log.close()
    for suffix in (".log", ".index", ".timeindex"):
        f.disk.unlink(FIRST + suffix)
    log = f.open()
    assert log.damage is not None
    assert "missing" in log.damage.why


def test_a_flipped_bit_in_an_unsynced_batch_is_damage() -> None:
    f = LogFixture()
    f.append_durably(2)
    f.append(1)
    f.log._log.write()
    position, length = f.position_of(2)
    f.disk.process_crash()
    f.disk.flip_bit(f"{FIRST}.log", position + length - 3, 1)
    log = f.open()
    assert log.damage is not None
    assert log.report.torn == []


@pytest.mark.parametrize("is_checked", [True, False], ids=["checkpoint", "scan"])
@pytest.mark.parametrize("at", [6, 7])
def test_a_damaged_offset_in_a_header_is_damage(at: int, is_checked: bool) -> None:
    f = LogFixture()
    f.append_durably(5)
    position, _ = f.position_of(4)
    if is_checked:
        f.log.close()
    else:
        f.disk.process_crash()
    f.disk.flip_bit(f"{FIRST}.log", position + at, 1)
    log = f.open()
    assert log.damage is not None
    assert log.log_end_offset <= 5
    assert f.values()[:4] == [0, 1, 2, 3]


def test_a_checkpoint_slot_with_a_wrong_checksum_is_ignored() -> None:
    f = LogFixture()
    f.append_durably(3)
    first = f.log.checkpoint()
    f.append_durably(3)
    second = f.log.checkpoint()
    assert second.sequence == first.sequence + 1
    f.disk.flip_bit(CHECKPOINT, second.sequence % 2 * SLOT_SIZE + 40, 1)
    assert read_checkpoint(f.disk, PATH) == first


def test_a_repair_does_not_restore_trimmed_records() -> None:
    f = LogFixture(segment_bytes=8192)
    f.append_durably(100)
    assert f.log.trim(7) == 7
    position, _ = f.position_of(20)
    f.log.close()
    f.disk.flip_bit(f"{FIRST}.log", position + 70, 1)
    repair_log(f.disk, PATH, accept_loss=True)
    assert f.open().log_start_offset == 7
    assert f.values()[:2] == [7, 8]
