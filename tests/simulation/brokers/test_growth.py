"""Topics of simulated clusters get more partitions under faults; runs without the option stay unchanged."""

import pytest
from click.testing import CliRunner

from jepsen.simulation.__main__ import main
from jepsen.simulation.brokers.options import draw
from jepsen.simulation.brokers.run import simulate_brokers
from jepsen.simulation.report import failure_text, repeat_command
from tests.simulation.brokers.at_work import World

ADDITIONS = 3
"""Additions after which some topic has more partitions than topics are created with."""


def test_administrators_add_partitions() -> None:
    world = World(growth=True, topic_life_s=1.0)
    for _ in range(20):
        world.cluster.loop.run_for(1)
        if sum(each.grown for each in world.workload.administrators) >= ADDITIONS:
            break
    else:
        pytest.fail("partitions were not added often enough")
    world.converge()
    service = world.machine(1).service
    assert service is not None
    counts = [row.partition_count for row in service.metadata.state.topics if not row.creation.is_internal]
    assert max(counts) > world.cluster.options.partitions_max
    world.cluster.close()


@pytest.mark.parametrize("seed", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_fixed_seeds_with_growth_have_no_violation(seed: int) -> None:
    outcome = simulate_brokers(seed, growth=True)
    if outcome.failure is not None:
        pytest.fail(failure_text(outcome, "the one under test"), pytrace=False)
    assert repeat_command(outcome).endswith(f"--level broker --growth --seeds 1 --from {seed}")


def test_the_option_is_never_drawn_from_a_seed() -> None:
    assert not any(draw(seed).growth for seed in range(100))


def test_growth_is_refused_at_other_levels() -> None:
    done = CliRunner().invoke(main, ["--level", "driver", "--growth"])
    assert (done.exit_code, "--level broker" in done.stderr) == (2, True)
