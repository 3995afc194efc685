"""Rest of a process after a stall, and validity of its reported fitness at other nodes."""

from raftlog.partitions.node.fitness import FULL_S, Fitness
from raftlog.types import NodeId

ME, OTHER = NodeId(1), NodeId(2)


def rest_s(fitness: Fitness, now: float) -> float:
    fitness.record_stall(now)
    return fitness.own_report(now)[0] / 1000


def test_the_rest_doubles_with_each_early_stall() -> None:
    fitness = Fitness(ME, 1_000)
    now, rests = 100.0, []
    for _ in range(8):
        rests.append(rest_s(fitness, now))
        now += rests[-1] + 0.5
    assert rests == [1, 2, 4, 8, 16, 32, 32, 32]
    assert rest_s(fitness, now + 1_000) == 1, "it was well for long"


def test_reports_of_one_stall_count_once() -> None:
    fitness = Fitness(ME, 1_000)
    assert [rest_s(fitness, 100.0 + tenth / 10) for tenth in range(0, 20, 5)] == [1, 1, 1, 1]
    assert fitness.is_slow(ME, 102.4)
    assert not fitness.is_slow(ME, 102.6)


def test_reported_fitness_expires() -> None:
    fitness = Fitness(ME, 1_000)
    fitness.record_report(OTHER, 300, True, 50.0)
    assert fitness.is_slow(OTHER, 50.2)
    assert not fitness.is_slow(OTHER, 50.4)
    assert fitness.is_full(OTHER, 50.0 + FULL_S - 0.1)
    assert fitness.is_fit(OTHER, 50.0 + FULL_S)


def test_the_newest_report_counts_and_a_new_process_is_fit() -> None:
    fitness = Fitness(ME, 1_000)
    fitness.record_report(OTHER, 10_000, True, 50.0)
    fitness.record_report(OTHER, 10_000, False, 51.0)
    assert not fitness.is_full(OTHER, 51.0)
    assert not fitness.is_fit(OTHER, 51.0)
    fitness.forget(OTHER)
    assert fitness.is_fit(OTHER, 51.0)
