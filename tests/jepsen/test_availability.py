"""Times without writes."""

from jepsen.nemeses.fault import Happened
from jepsen.runner.availability import Availability, longest_gap, quiet_spans
from raftlog.types import TopicPartition

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
S = 1_000_000_000


def test_the_gap_reaches_from_the_write_before_to_the_write_behind() -> None:
    times = [1, 2, 3, 10, 11]
    assert longest_gap(times, 4, 5) == 7
    assert longest_gap(times, 2, 4) == 7
    assert longest_gap(times, 10, 11) == 7
    assert longest_gap(times, 12, 20) == 9
    assert longest_gap([], 12, 20) == 8


def test_quiet_time_is_what_the_faults_leave() -> None:
    assert quiet_spans([(2, 5), (4, 6), (9, 30)], 20) == [(0, 2), (6, 9)]
    assert quiet_spans([], 20) == [(0, 20)]
    assert quiet_spans([(0, 1)], 20) == [(1, 20)]


def test_a_fault_is_charged_with_what_overlaps_it() -> None:
    figures = Availability()
    for second in (0, 1, 2, 8, 9):
        figures.note(second * S, second * S, "ok", ONE, asked_all=True)
    figures.note(2 * S, 3 * S, "info", ONE, asked_all=True)
    figures.note(2 * S, 4 * S, "fail", OTHER, asked_all=True)
    figures.note(3 * S, 5 * S, "info", OTHER, asked_all=False)
    found = figures.of(Happened("kill", "kill node 1", 2.5, 5.0, "", 5.0), (ONE, OTHER), 0)
    assert (found.without_write_s, found.worst_partition, found.worst_partition_s) == (6.0, "t/0", 6.0)
    assert (found.acknowledged, found.refused, found.unknown) == (0, 1, 1)


def test_success_is_counted_in_quiet_time_alone() -> None:
    figures = Availability()
    for second in range(20):
        figures.note(second * S, second * S, "fail" if 5 <= second < 9 else "ok", ONE, asked_all=True)
    quiet = figures.quiet([Happened("kill", "kill node 1", 5.0, 6.0, "", 7.0)], 0, 20.0)
    assert (quiet.sends, quiet.succeeded, quiet.share) == (16, 16, 1.0)
