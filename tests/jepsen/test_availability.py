"""Times without successful writes."""

from jepsen.nemeses.fault import InjectedFault
from jepsen.runner.availability import Availability, longest_gap
from raftlog.types import TopicPartition

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
S = 1_000_000_000


def test_a_gap_lasts_from_the_write_before_to_the_write_after() -> None:
    times = [1, 2, 3, 10, 11]
    assert longest_gap(times, 4, 5) == 7
    assert longest_gap(times, 2, 4) == 7
    assert longest_gap(times, 10, 11) == 7
    assert longest_gap(times, 12, 20) == 9
    assert longest_gap([], 12, 20) == 8


def test_a_fault_accounts_for_the_gaps_that_overlap_it() -> None:
    figures = Availability()
    for second in (0, 1, 2, 8, 9):
        figures.record(second * S, "ok", ONE)
    figures.record(3 * S, "info", ONE)
    figures.record(4 * S, "fail", OTHER)
    found = figures.figures_of(InjectedFault("kill", "kill node 1", 2.5, 5.0, "", 5.0), (ONE, OTHER), 0)
    assert (found.without_write_s, found.worst_partition, found.worst_partition_s) == (6.0, "t/0", 6.0)
    assert (found.acknowledged, found.refused, found.unknown) == (0, 1, 1)
