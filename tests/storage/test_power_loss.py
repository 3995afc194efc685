"""Power loss around every sync of a single log: cut or refused records stay away, visible records stay."""

from contextlib import suppress
from functools import partial

import pytest

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.errors import SyncFailed
from raftlog.records import build_batch
from tests.storage.test_adversity import PowerCut, fill_disk, flush
from tests.storage.test_recovery import LogFixture

SEEDS = range(12)


def crash_at_sync(disk: SimulatedDisk, number: int) -> None:
    """Raise at the thread's sync of that number (from 0); `disk.__dict__.pop("sync")` removes it."""
    before = iter(range(number))
    real = disk.sync

    def sync(*arguments: object) -> None:
        if next(before, None) is None:
            raise PowerCut
        real(*arguments)  # type: ignore[arg-type]

    disk.sync = sync  # type: ignore[method-assign]


def restore_syncs(disk: SimulatedDisk) -> None:
    disk.__dict__.pop("sync")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_refused_append_does_not_reappear(seed: int) -> None:
    f = LogFixture(seed)
    f.append_durably(1)
    fill_disk(f, room=9000)
    f.append(3, size=4000)
    syncs = f.disk.sync_count
    flush(f)
    assert len(f.refused) == 1
    assert f.disk.sync_count == syncs + 1, "what the kernel may have written back of it is cut off for good"
    f.disk.capacity_bytes = None
    f.disk.power_loss()
    f.open()
    assert f.values() == [0]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("offset", [3, 17])
def test_a_cut_holds_and_leaves_no_damage(seed: int, offset: int) -> None:
    f = LogFixture(seed, segment_bytes=8192)
    f.append_durably(20, size=1000)
    f.log.cut(offset)
    f.disk.power_loss()
    assert f.open().damage is None
    assert f.values() == list(range(offset))
    f.append_durably(2)
    assert f.values() == list(range(offset + 2))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number", range(4))
def test_the_state_after_an_interrupted_cut_is_kept_by_later_openings(seed: int, number: int) -> None:
    f = LogFixture(seed)
    f.append_durably(12, size=1000)
    f.log.checkpoint()
    crash_at_sync(f.disk, number)
    with suppress(PowerCut):
        f.log.cut(5)
    restore_syncs(f.disk)
    f.disk.process_crash()
    assert f.open().damage is None
    seen = f.values()
    f.disk.power_loss()
    assert f.open().damage is None
    assert f.values() == seen


@pytest.mark.parametrize("seed", SEEDS)
def test_a_file_created_during_a_flush_keeps_its_name(seed: int) -> None:
    f = LogFixture(seed)
    f.append(1)
    f.log.flush()
    f.log.roll()
    f.append(1)
    f.disk.complete_all()
    flush(f)
    assert f.log.high_watermark == 2
    f.disk.power_loss()
    assert f.open().damage is None
    assert f.values() == [0, 1]


@pytest.mark.parametrize("seed", range(48))
@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_opening_interrupted_at_any_sync_leaves_no_damage(seed: int, number: int) -> None:
    f = LogFixture(seed)
    f.append_durably(1)
    f.append(6, size=4500)
    f.log._log.write()
    f.disk.process_crash()
    crash_at_sync(f.disk, number)
    with suppress(PowerCut):
        f.open()
    restore_syncs(f.disk)
    f.disk.power_loss()
    assert f.open().damage is None
    assert f.values() == list(range(f.log.log_end_offset))
    assert f.log.log_end_offset >= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_entries_read_after_a_failed_sync_are_on_the_disk(seed: int) -> None:
    f = LogFixture(seed)
    f.append_durably(3)
    f.append(5, size=5000)
    f.disk.fail_sync()
    flush(f)
    assert isinstance(f.log.failure, SyncFailed)
    f.disk.process_crash()
    f.open()
    seen = f.values()
    f.disk.power_loss()
    assert f.open().damage is None
    assert f.values() == seen


def test_retention_counts_from_the_next_segment_not_from_a_clients_clock() -> None:
    f = LogFixture(segment_bytes=4096, retention_ms=10_000)
    append = partial(build_batch, [b"x" * 200], now_ms=1)
    for _ in range(10):
        f.log.append([append()])
    f.now += 20_000
    while f.log.segment_count < 2:
        f.log.append([append()])
    flush(f)
    f.now += 1_000
    assert f.log.clean() == 0, "its newest records came a second ago"
    f.now += 10_000
    assert f.log.clean() > 0
