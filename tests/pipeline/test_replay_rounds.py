"""What a replay goes through: each offset in one step, also when the archive grows in between."""

from hypothesis import given
from hypothesis import strategies as st

from raftlog.pipeline.archiving.manifest import Coverage
from raftlog.pipeline.replaying.rounds import Range, Round, ranges_of, steps_of
from raftlog.types import TopicPartition


@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=3), min_size=1, max_size=4), st.integers(1, 9))
def test_each_offset_is_in_one_step_of_one_round(growths: list[list[int]], size: int) -> None:
    """`growths`: by how much each partition grew before each round; partitions come, too."""
    seen: dict[int, list[int]] = {}
    before: dict[TopicPartition, Coverage] | None = None
    covered: dict[TopicPartition, Coverage] = {TopicPartition("other", 0): Coverage("id", 0, 99)}
    for growth in growths:
        for partition, more in enumerate(growth):
            place = TopicPartition("t", partition)
            known = covered.get(place, Coverage("id", 5, 5))
            covered[place] = known._replace(end=known.end + more)
        for step in steps_of(ranges_of("t", covered, before), size):
            assert step
            for partition, start, end in step:
                assert 0 < end - start <= size
                seen.setdefault(partition, []).extend(range(start, end))
        before = dict(covered)
    ends = {place.partition: coverage.end for place, coverage in covered.items() if place.topic == "t"}
    assert seen == {partition: list(range(5, end)) for partition, end in ends.items() if end > 5}


def test_steps_are_counted_over_all_rounds() -> None:
    first = Round("archive", 7)
    assert first.is_first
    second = first.next(9, 3)
    assert second == Round("archive", 9, 7, 3)
    assert not second.is_first
    assert second.next(12, 2).epoch == 5


def test_short_partitions_have_fewer_steps() -> None:
    steps = steps_of([Range(0, 0, 25), Range(4, 100, 105)], 10)
    assert steps == [[Range(0, 0, 10), Range(4, 100, 105)], [Range(0, 10, 20)], [Range(0, 20, 25)]]
