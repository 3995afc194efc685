"""Kafka's protocol in simulated clusters: its clients do all that they can, under faults; no other run changes."""

from collections import Counter

import pytest
from click.testing import CliRunner

from jepsen.checkers import Op
from jepsen.simulation.__main__ import main
from jepsen.simulation.brokers.options import draw
from jepsen.simulation.brokers.run import simulate_brokers
from jepsen.simulation.brokers.workload.uses import NONE
from jepsen.simulation.report import failure_text, repeat_command
from tests.simulation.brokers.at_work import World


def test_clients_of_kafka_do_everything() -> None:
    world = World(kafka=True, uses=NONE)
    counts: Counter[str] = Counter()
    feed = world.cluster.checker.feed

    def count(op: Op) -> object:
        counts[f"{op.kind} {op.type}"] += 1
        return feed(op)

    world.cluster.checker.feed = count  # type: ignore[method-assign,assignment]  # counts, and passes them on
    world.cluster.loop.run_for(10)
    world.converge()
    for kind in ("send", "poll", "list", "join", "commit", "committed"):
        assert counts[f"{kind} ok"] > 0, counts
    assert counts["commit fail"] > 0, "commits in an earlier generation are refused"
    world.cluster.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_fixed_seeds_with_kafka(seed: int) -> None:
    outcome = simulate_brokers(seed, kafka=True)
    if outcome.failure is not None:
        pytest.fail(failure_text(outcome, "the one under test"), pytrace=False)
    assert repeat_command(outcome).endswith(f"--level broker --kafka --seeds 1 --from {seed}")


def test_a_seed_repeats_to_the_last_callback() -> None:
    assert simulate_brokers(3, kafka=True).digest == simulate_brokers(3, kafka=True).digest


def test_no_seed_draws_the_option() -> None:
    assert not any(draw(seed).kafka for seed in range(100))


def test_it_is_for_brokers_only() -> None:
    done = CliRunner().invoke(main, ["--level", "driver", "--kafka"])
    assert (done.exit_code, "--level broker" in done.stderr) == (2, True)
