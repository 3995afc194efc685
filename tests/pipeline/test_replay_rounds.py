"""Rounds of a replay: each offset in one step, and their stored form."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.client import BrokerClient
from raftlog.errors import InvalidArgument, VersionConflict
from raftlog.pipeline.archives.manifest import Coverage
from raftlog.pipeline.archives.state import ArchiveState
from raftlog.pipeline.errors import ArchiveDamaged, WriteForgotten
from raftlog.pipeline.replays.rounds import (
    NO_STEP,
    Range,
    ReplayProgress,
    ReplayRecord,
    Round,
    current_round,
    divide_into_steps,
    newly_covered_ranges,
)
from raftlog.types import TopicPartition
from tests.pipeline.brokers_here import run_brokers


@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=3), min_size=1, max_size=4), st.integers(1, 9))
def test_each_offset_is_in_one_step_of_one_round(growths: list[list[int]], size: int) -> None:
    """`growths` has the growth of each partition before each round; partitions are added, too."""
    seen: dict[int, list[int]] = {}
    before: dict[TopicPartition, Coverage] | None = None
    covered: dict[TopicPartition, Coverage] = {TopicPartition("other", 0): Coverage("id", 0, 99)}
    for growth in growths:
        for partition, more in enumerate(growth):
            place = TopicPartition("t", partition)
            known = covered.get(place, Coverage("id", 5, 5))
            covered[place] = known._replace(end=known.end + more)
        for step in divide_into_steps(newly_covered_ranges("t", covered, before), size):
            assert step
            for partition, start, end in step:
                assert 0 < end - start <= size
                seen.setdefault(partition, []).extend(range(start, end))
        before = dict(covered)
    ends = {place.partition: coverage.end for place, coverage in covered.items() if place.topic == "t"}
    assert seen == {partition: list(range(5, end)) for partition, end in ends.items() if end > 5}


def test_steps_are_counted_over_all_rounds() -> None:
    first = Round("archive", 7, 10)
    assert first.is_first
    second = first.next(9, 3)
    assert second == Round("archive", 9, 10, 7, 3)
    assert not second.is_first
    assert second.next(12, 2).epoch == 5


def test_short_partitions_have_fewer_steps() -> None:
    steps = divide_into_steps([Range(0, 0, 25), Range(4, 100, 105)], 10)
    assert steps == [[Range(0, 0, 10), Range(4, 100, 105)], [Range(0, 10, 20)], [Range(0, 20, 25)]]


def test_resume_positions_of_a_replay() -> None:
    state = ArchiveState("archive", 7, {}, {}, {})
    older = Round("archive", 5, 10)
    assert current_round(state, None, NO_STEP, 10) == Round("archive", 7, 10)
    in_first_step = ReplayProgress(older, 0)
    assert current_round(state, in_first_step, NO_STEP, 10) == older
    assert current_round(state, ReplayProgress(older, 3), 2, 10) == older
    assert current_round(state, ReplayProgress(older, 3), 3, 10) == older
    for reached, done in ((None, 4), (ReplayProgress(older, 3), 1), (ReplayProgress(older, 1), NO_STEP)):
        with pytest.raises(WriteForgotten):
            current_round(state, reached, done, 10)
    with pytest.raises(ArchiveDamaged, match="older copy"):
        current_round(state, ReplayProgress(Round("archive", 8, 10), 1), 0, 10)


def test_of_two_writers_of_a_step_the_second_is_refused(tmp_path: Path) -> None:
    with run_brokers(tmp_path) as brokers:
        brokers.create_topic("orders")
        brokers.create_topic("others")

        async def use_record() -> None:
            async with BrokerClient(brokers.bootstrap.split(",")) as client:
                record = ReplayRecord("write", "orders", "how")
                assert await record.read(client) is None
                await record.write(client, Round("archive", 7, 10), 0)
                with pytest.raises(VersionConflict, match="after commit 7"):
                    await record.write(client, Round("archive", 9, 10), 0)
                await record.write(client, Round("archive", 7, 10), 0)
                assert await record.read(client) == ReplayProgress(Round("archive", 7, 10), 0)
                later = Round("archive", 7, 10).next(9, 1)
                await record.write(client, later, 1)
                await record.write(client, Round("archive", 7, 10), 0)
                assert await record.read(client) == ReplayProgress(later, 1)
                assert await ReplayRecord("write", "others", "how").read(client) is None
                with pytest.raises(InvalidArgument, match="another name"):
                    await ReplayRecord("write", "orders", "otherwise").read(client)

        async def read_spoiled_record() -> None:
            async with BrokerClient(brokers.bootstrap.split(",")) as client:
                await client.groups.commit("raftlog-replay.mine", {TopicPartition("orders", 0): 5})
                with pytest.raises(WriteForgotten, match=r"raftlog-replay\.mine"):
                    await ReplayRecord("mine", "orders", "how").read(client)

        brokers.run(use_record())
        brokers.run(read_spoiled_record())
