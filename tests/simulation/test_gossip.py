"""Gossip in the simulator: a hundred members at 5 % loss for ten minutes, small clusters under all faults."""

import subprocess
import sys
from os import environ

import pytest

from jepsen.simulation.gossip.options import draw, draw_steady
from jepsen.simulation.gossip.run import simulate_gossip, simulate_options
from jepsen.simulation.gossip.watch import Watch
from jepsen.simulation.kept_seeds import KeptSeed, kept_seeds
from jepsen.simulation.outcome import Outcome
from jepsen.simulation.report import failure_text
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.membership.member import Address, Announcement, GossipMember, MemberState
from raftlog.membership.swim import MemberChange
from raftlog.types import NodeId

SEEDS = range(1, 21)
SEEDS_PER_TEST = 10


def require_no_violation(outcome: Outcome) -> None:
    if outcome.failure is not None:
        pytest.fail(failure_text(outcome, "the one under test"), pytrace=False)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] if seed > 1 else []) for seed in range(1, 11)]
)
def test_a_hundred_members_at_five_percent_loss_have_no_violation_for_ten_minutes(seed: int) -> None:
    outcome = simulate_gossip(seed, members=100, loss=0.05)
    require_no_violation(outcome)
    assert outcome.virtual_s > 600


@pytest.mark.parametrize("first", [1, pytest.param(11, marks=pytest.mark.slow)])
def test_fixed_seeds_have_no_violation(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        require_no_violation(simulate_gossip(seed))


@pytest.mark.parametrize("kept", kept_seeds("gossip"), ids=lambda kept: str(kept.seed))
def test_kept_seeds_have_no_violation(kept: KeptSeed) -> None:
    require_no_violation(simulate_gossip(kept.seed))


def test_without_loss_no_live_member_is_suspected_when_others_stop() -> None:
    for members in (2, 3, 5, 10):
        require_no_violation(simulate_options(draw_steady(1, members=members, loss=0.0, safety_s=300.0)))


def test_two_hash_seeds_give_the_same_trace() -> None:
    script = "from jepsen.simulation.gossip.run import simulate_gossip; print(simulate_gossip(9).digest)"
    digests = {
        subprocess.run(
            (sys.executable, "-c", script),
            env=environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert digests == {simulate_gossip(9).digest}


def test_the_seed_determines_the_run() -> None:
    assert draw(5) == draw(5)
    assert len({str(draw(seed)).partition("\n")[2] for seed in range(50)}) > 25


# violations that the checker detects


def change(
    node: int, before: MemberState | None, after: MemberState, incarnation: int = 1 << 32, disk: int = 0
) -> MemberChange:
    uuid = node.to_bytes(8) + disk.to_bytes(8)
    about = Announcement(incarnation, Address("10.0.0.1", 1), b"")
    return MemberChange(NodeId(node), before, after, GossipMember(NodeId(node), uuid, incarnation, after, about, 0.0))


def watch_three(loss: float = 0.05) -> Watch:
    """Return a watcher of three members that are up."""
    watch = Watch(draw_steady(1, members=3, loss=loss))
    for process in watch.world.processes:
        watch.world.begin(process, ())
    watch.world.now = 100.0
    return watch


def violations_of(watch: Watch, *changes: MemberChange) -> str:
    *before, last = changes
    for each in before:
        watch.on_change(watch.world.processes[0], each)
    with pytest.raises(PropertyBroken) as broken:
        watch.on_change(watch.world.processes[0], last)
    return broken.value.name


def test_a_healthy_member_declared_dead_is_detected() -> None:
    assert violations_of(watch_three(), change(2, MemberState.SUSPECT, MemberState.DEAD)) == "healthy-declared-dead"


def test_a_dead_member_may_be_declared_dead() -> None:
    watch = watch_three()
    watch.world.processes[1].end(90.0)
    watch.on_change(watch.world.processes[0], change(2, MemberState.SUSPECT, MemberState.DEAD))
    assert watch.deaths == {(2, 1): 10.0}


def test_a_suspicion_without_loss_is_detected() -> None:
    assert (
        violations_of(watch_three(loss=0.0), change(2, MemberState.ALIVE, MemberState.SUSPECT)) == "healthy-suspected"
    )
    watch_three(loss=0.05).on_change(
        watch_three().world.processes[0], change(2, MemberState.ALIVE, MemberState.SUSPECT)
    )


def test_an_incarnation_that_falls_is_detected() -> None:
    newer, older = change(2, None, MemberState.ALIVE, 2 << 32), change(2, MemberState.ALIVE, MemberState.ALIVE, 1 << 32)
    assert violations_of(watch_three(), newer, older) == "incarnation-back"


def test_a_state_that_falls_is_detected() -> None:
    suspect, alive = (
        change(2, MemberState.ALIVE, MemberState.SUSPECT),
        change(2, MemberState.SUSPECT, MemberState.ALIVE),
    )
    assert violations_of(watch_three(), suspect, alive) == "state-not-allowed"


def test_a_death_unknown_to_a_member_is_detected() -> None:
    watch = watch_three()
    watch.world.processes[1].end(90.0)
    with pytest.raises(PropertyBroken, match="dead-not-known"):
        watch.check_known(watch.world.processes[1], 1)


def test_a_member_that_was_killed_just_now_need_not_be_known_as_dead() -> None:
    """The check of an earlier change comes while the kill is too recent."""
    watch = watch_three()
    watch.world.processes[1].end(watch.world.now - 3.5)
    watch.check_known(watch.world.processes[1], 1)


def test_costs_above_the_bound_are_detected() -> None:
    watch = watch_three()
    watch.check_traffic(3 * 3_000 * 10, 10.0)
    with pytest.raises(PropertyBroken, match="gossip-cost"):
        watch.check_traffic(3 * 3_001 * 10, 10.0)


def test_views_that_differ_in_the_end_are_detected() -> None:
    with pytest.raises(PropertyBroken, match="disagreement"):
        watch_three().check_agreement()
