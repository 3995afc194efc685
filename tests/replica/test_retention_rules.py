"""`Retention` alone: proposed trims, one at a time, counters, and bounds of the retained part."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.errors import Unavailable
from raftlog.partitions.counters import Counters
from raftlog.partitions.replica.retention import Retention
from raftlog.storage.retention import find_retained_start
from raftlog.topic_config import TopicConfig


def segments_of(count: int, size: int = 100) -> tuple[Any, ...]:
    """Return segments of ten records, each written in the millisecond of its number."""
    return tuple(
        SimpleNamespace(
            base_index=1 + 10 * number,
            base_offset=10 * number,
            next_offset=10 * number + 10,
            end_position=size,
            times=SimpleNamespace(max_timestamp=number),
            created_ms=number,
        )
        for number in range(count)
    )


class TrimWorld:
    """Log of five segments whose trims wait for the test."""

    def __init__(self) -> None:
        self.proposed: list[tuple[int, int]] = []
        self.trims: list[asyncio.Future[Any]] = []
        log = SimpleNamespace(segments=SimpleNamespace(segments=segments_of(5)))
        group: Any = SimpleNamespace(log=log, applied_index=100, log_start_offset=0, propose_trim=self.propose_trim)
        self.counters = Counters()
        producers: Any = SimpleNamespace(is_covered=True, snapshot_index=31, stable_end=1 << 40)
        self.retention = Retention("t/0", group, producers, self.counters)

    def propose_trim(self, offset: int, snapshot_index: int) -> "asyncio.Future[Any]":
        self.proposed.append((offset, snapshot_index))
        self.trims.append(asyncio.get_running_loop().create_future())
        return self.trims[-1]

    def apply(self) -> None:
        self.retention.propose_if_due(TopicConfig(retention_bytes=250, retention_ms=None), 5)


@pytest.fixture
async def world() -> TrimWorld:
    return TrimWorld()


async def test_one_trim_is_in_flight_with_the_needed_snapshot(world: TrimWorld) -> None:
    world.apply()
    world.apply()
    assert world.proposed == [(20, 31)]
    world.trims[0].set_exception(Unavailable("no majority"))
    await asyncio.sleep(0)
    assert world.counters.segments_bytes_deleted == 0
    world.apply()
    assert world.proposed == [(20, 31)] * 2
    world.trims[1].set_result(None)
    await asyncio.sleep(0)
    assert world.counters.segments_bytes_deleted == 200, "two segments went"


@pytest.mark.parametrize(("retention_bytes", "kept_from"), [(500, 0), (401, 0), (400, 10), (399, 10), (0, 40)])
def test_segments_are_deleted_while_enough_bytes_remain(retention_bytes: int, kept_from: int) -> None:
    config = TopicConfig(retention_bytes=retention_bytes, retention_ms=None)
    assert find_retained_start(segments_of(5), config, 1_000) == kept_from


@pytest.mark.parametrize(("now_ms", "kept_from"), [(1_001, 0), (1_002, 10), (1_003, 20), (9_000, 40)])
def test_a_segment_is_kept_until_it_is_older_than_the_retention(now_ms: int, kept_from: int) -> None:
    """The first segment ends with the creation of the second, at 1 ms."""
    assert find_retained_start(segments_of(5), TopicConfig(retention_ms=1_000), now_ms) == kept_from
