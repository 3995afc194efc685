"""Topics of simulated clusters are changed while they are created; runs without the option stay unchanged."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from click.testing import CliRunner

from jepsen.simulation.__main__ import main
from jepsen.simulation.brokers.convergence import TRASH, Convergence
from jepsen.simulation.brokers.machine import DATA_DIR
from jepsen.simulation.brokers.options import EarlyChangeOptions, draw
from jepsen.simulation.brokers.run import simulate_brokers
from jepsen.simulation.brokers.workload.early_changes import EarlyTopic
from jepsen.simulation.report import failure_text, repeat_command
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.errors import DeadlineExceeded, UnknownTopic
from raftlog.partitions.controller.machine import ControllerState
from tests.simulation.brokers.at_work import World

OFTEN = EarlyChangeOptions(operators=1, pause_s=0.2, rivals=0.3, strikes=0.0, kept_max=1)
TOPICS = 6
CHANGES = 6
FIRST, SECOND = UUID(int=1), UUID(int=2)


@pytest.fixture
def world() -> Iterator[World]:
    world = World(early_changes=OFTEN)
    yield world
    world.cluster.close()


def test_operators_change_new_topics(world: World) -> None:
    [operator] = world.nemesis.early_operators
    for _ in range(40):
        world.cluster.loop.run_for(1)
        if len(operator.topics) >= TOPICS and operator.changed >= CHANGES:
            break
    else:
        pytest.fail("new topics were not changed often enough")
    world.converge()
    assert world.nemesis.taken.versions, "no partition was moved"
    assert any(topic.deleted for topic in operator.topics)
    assert any(len(topic.created) > 1 for topic in operator.topics), "no topic was created again"


def test_left_directories_are_detected(world: World) -> None:
    convergence = Convergence(world.cluster, world.workload, world.nemesis)
    for operator in world.nemesis.early_operators:
        operator.is_stopped = True
    assert world.cluster.loop.run_until(lambda: not convergence._left_directories(), within_s=20)
    disk = world.machine(1).disk
    path = next(f"{DATA_DIR}/{name}" for name in disk.list_directory(DATA_DIR) if not name.startswith("."))
    for left in (f"{DATA_DIR}/gone", f"{path}/77", f"{TRASH}/gone"):
        disk.make_directory(left)
    wanted = {f"n1 {left}" for left in (f"{DATA_DIR}/gone", f"{path}/77", f"{TRASH}/gone")}
    assert set(convergence._left_directories()) == wanted


def topic_of(*created: UUID) -> EarlyTopic:
    """Return a topic for which these creations were acknowledged."""
    topic = EarlyTopic("early")
    for topic_id in created:
        topic.record_creation(topic.begin_creation(), topic_id, 1)
    return topic


def test_a_lost_topic_is_detected() -> None:
    with pytest.raises(PropertyBroken, match="created-topic-gone"):
        topic_of(FIRST).check(ControllerState())


@pytest.mark.parametrize("error", [DeadlineExceeded("later"), UnknownTopic("never")])
def test_a_topic_may_be_missing_only_if_its_deletion_may_have_happened(error: Exception) -> None:
    topic = topic_of(FIRST)
    topic.unknown += 1
    topic.record_error(error)
    if isinstance(error, DeadlineExceeded):
        topic.check(ControllerState())
    else:
        with pytest.raises(PropertyBroken, match="created-topic-gone"):
            topic.check(ControllerState())


@pytest.mark.parametrize("seed", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_fixed_seeds_with_early_changes_have_no_violation(seed: int) -> None:
    outcome = simulate_brokers(seed, early_changes=True)
    if outcome.failure is not None:
        pytest.fail(failure_text(outcome, "the one under test"), pytrace=False)
    assert repeat_command(outcome).endswith(f"--level broker --early-changes --seeds 1 --from {seed}")


def test_the_option_is_never_drawn_from_a_seed() -> None:
    assert not any(draw(seed).early_changes for seed in range(100))


def test_early_changes_are_refused_at_other_levels() -> None:
    done = CliRunner().invoke(main, ["--level", "driver", "--early-changes"])
    assert (done.exit_code, "--level broker" in done.stderr) == (2, True)
