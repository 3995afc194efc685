"""Kafka clients in simulated clusters run all their operations under faults; other runs stay unchanged."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from click.testing import CliRunner

from jepsen.checkers import Op
from jepsen.simulation.__main__ import main
from jepsen.simulation.brokers.options import draw
from jepsen.simulation.brokers.run import simulate_brokers
from jepsen.simulation.brokers.workload.uses import NONE
from jepsen.simulation.outcome import Outcome
from jepsen.simulation.report import failure_text, repeat_command
from raftlog.api.kafka.handlers.data import produce
from raftlog.partitions.groups.machine import Machine
from raftlog.partitions.leader.fetch import PartitionsFetch
from tests.simulation.brokers.at_work import World


def test_kafka_clients_run_every_operation() -> None:
    world = World(kafka=True, uses=NONE)
    counts: Counter[str] = Counter()
    feed = world.cluster.checker.feed

    def count(op: Op) -> object:
        counts[f"{op.kind} {op.type}"] += 1
        return feed(op)

    world.cluster.checker.feed = count  # type: ignore[method-assign,assignment]  # counts, and passes them on
    kinds = [*(f"{kind} ok" for kind in ("send", "poll", "list", "join", "commit", "committed")), "commit fail"]
    for _ in range(10):
        world.cluster.loop.run_for(1)
        if all(counts[kind] > 0 for kind in kinds):  # commits in an earlier generation are refused
            break
    world.converge()
    assert all(counts[kind] > 0 for kind in kinds), counts
    world.cluster.close()


def wrong_base_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    row = produce._outcome_row

    def wrong(append: Any, outcome: Any) -> Any:
        found = row(append, outcome)
        return found._replace(base_offset=found.base_offset + 1) if found.error_code == 0 else found

    monkeypatch.setattr(produce, "_outcome_row", wrong)


def uncommitted_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report the log end offset as the high watermark."""
    read = PartitionsFetch._read

    def wrong(self: PartitionsFetch, place: int, replica: Any) -> None:
        read(self, place, replica)
        found = self._results[place]
        if found.error is None:
            self._results[place] = found._replace(high_watermark=replica.group.log_end_offset)

    monkeypatch.setattr(PartitionsFetch, "_read", wrong)


def commit_of_an_earlier_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept offsets of members of earlier generations."""
    current = Machine._current_member

    def wrong(self: Machine, name: str, member_id: str, instance_id: str | None, generation: int) -> Any:
        group = self._groups.get(name)
        newest = generation if group is None else max(generation, group.generation)
        return current(self, name, member_id, instance_id, newest)

    monkeypatch.setattr(Machine, "_current_member", wrong)


@pytest.mark.parametrize(
    ("bug", "found"),
    [
        (wrong_base_offset, "acknowledged-uncommitted"),
        (uncommitted_watermark, "uncommitted-shown"),
        (commit_of_an_earlier_generation, "fenced-commit"),
    ],
)
def test_planted_bugs_of_the_kafka_listener_are_detected(
    monkeypatch: pytest.MonkeyPatch, bug: Callable[[pytest.MonkeyPatch], None], found: str
) -> None:
    bug(monkeypatch)
    failure = simulate_brokers(1, kafka=True).failure
    assert failure is not None
    assert failure.name == found


@cache
def outcome_of(seed: int) -> Outcome:
    """Return the outcome of a seed, cached so that its digest is compared with that of the checked run."""
    return simulate_brokers(seed, kafka=True)


@pytest.mark.parametrize("seed", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_fixed_seeds_with_kafka_have_no_violation(seed: int) -> None:
    outcome = outcome_of(seed)
    if outcome.failure is not None:
        pytest.fail(failure_text(outcome, "the one under test"), pytrace=False)
    assert repeat_command(outcome).endswith(f"--level broker --kafka --seeds 1 --from {seed}")


@pytest.mark.slow
def test_a_kafka_seed_gives_the_same_run_to_the_last_callback() -> None:
    assert simulate_brokers(1, kafka=True).digest == outcome_of(1).digest


def test_the_option_is_never_drawn_from_a_seed() -> None:
    assert not any(draw(seed).kafka for seed in range(100))


def test_kafka_is_only_for_brokers() -> None:
    done = CliRunner().invoke(main, ["--level", "driver", "--kafka"])
    assert (done.exit_code, "--level broker" in done.stderr) == (2, True)
