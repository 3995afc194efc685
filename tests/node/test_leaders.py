"""Conditions and frequency of leadership transfers; without a network."""

import itertools
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.errors import Overloaded
from raftlog.partitions.node.fitness import Fitness
from raftlog.partitions.node.leaders import LedGroups
from raftlog.raft import ReplicaId, Role
from raftlog.raft.ready import FollowerStatus
from raftlog.types import Index, NodeId
from tests.node.nodes import settings_of

ME, OTHER, THIRD = (ReplicaId(NodeId(number), uuid.UUID(int=number)) for number in (1, 2, 3))


class FakeLedGroup:
    """Fake of a Raft group led here, with the attributes that `LedGroups` uses."""

    def __init__(self, number: int = 1, match: int = 100) -> None:
        self.group_id = uuid.UUID(int=number)
        self.key, self.path, self.name = self.group_id.bytes, f"/data/{number}", str(number)
        self.asked: list[ReplicaId] = []
        self.refusal: Exception | None = None
        self.given_up = 0
        self.durable = 50
        self.is_majority_full = False
        followers = [FollowerStatus(each, "replicate", Index(match), Index(match + 1), True) for each in (OTHER, THIRD)]
        self.core = SimpleNamespace(
            is_quiesced=False,
            last_id=SimpleNamespace(index=100),
            configuration=SimpleNamespace(
                has_voter=lambda member: True, voters=(ME, OTHER, THIRD), all_voters=lambda: (ME, OTHER, THIRD)
            ),
            status=lambda: SimpleNamespace(followers=followers, durable_index=Index(self.durable)),
        )

    def transfer_leadership(self, target: ReplicaId) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append(target)

    def step_down(self, why: str) -> bool:
        self.given_up += 1
        return True


def make_led_groups(path: Path, *groups: FakeLedGroup, fitness: Fitness | None = None, **changes: Any) -> LedGroups:
    settings = settings_of(path, 1, transfer_retry_ms=1_000, settle_ms=1_000, **changes)
    leaders = LedGroups(ME, settings, fitness or Fitness(ME.node_id, 60_000))
    leaders.preferred = lambda group_id: OTHER
    for group in groups:
        leaders.record_role(group, Role.LEADER)  # type: ignore[arg-type]
    return leaders


def test_only_a_settled_node_receives_leaderships(tmp_path: Path) -> None:
    group = FakeLedGroup()
    leaders = make_led_groups(tmp_path, group)
    leaders.tick(0.0)
    leaders.record_connected(OTHER.node_id, 1.0)
    leaders.tick(1.9)
    assert group.asked == []
    leaders.tick(2.0)
    assert group.asked == [OTHER]


def test_a_stopping_or_failed_node_receives_nothing_until_it_returns(tmp_path: Path) -> None:
    group = FakeLedGroup()
    leaders = make_led_groups(tmp_path, group)
    leaders.record_connected(OTHER.node_id, 0.0)
    leaders.mark_draining(OTHER.node_id)
    leaders.tick(5.0)
    leaders.record_disconnected(OTHER.node_id)
    leaders.tick(6.0)
    assert group.asked == []
    leaders.record_connected(OTHER.node_id, 7.0)
    leaders.tick(8.0)
    assert group.asked == [OTHER]


def test_a_lagging_broker_receives_no_leadership(tmp_path: Path) -> None:
    near, far = FakeLedGroup(1, match=90), FakeLedGroup(2, match=89)
    leaders = make_led_groups(tmp_path, near, far, transfer_lag_entries_max=10)
    leaders.record_connected(OTHER.node_id, 0.0)
    leaders.tick(5.0)
    assert (near.asked, far.asked) == ([OTHER], [])


def test_simultaneous_transfers_are_bounded(tmp_path: Path) -> None:
    groups = [FakeLedGroup(number) for number in range(1, 6)]
    leaders = make_led_groups(tmp_path, *groups, transfers_max=2)
    leaders.record_connected(OTHER.node_id, 0.0)
    leaders.tick(5.0)
    assert [len(group.asked) for group in groups] == [1, 1, 0, 0, 0]
    for group in groups[:2]:
        leaders.record_role(group, Role.FOLLOWER)  # type: ignore[arg-type]
    leaders.tick(5.1)
    assert [len(group.asked) for group in groups] == [1, 1, 1, 1, 0]


def test_the_pause_doubles_after_each_transfer_without_effect(tmp_path: Path) -> None:
    group = FakeLedGroup()
    leaders = make_led_groups(tmp_path, group)
    leaders.record_connected(OTHER.node_id, 0.0)
    asked_at = []
    for tenth in range(10, 400):
        before = len(group.asked)
        leaders.tick(tenth / 10)
        if len(group.asked) > before:
            asked_at.append(tenth / 10)
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(asked_at)]
    assert pauses == [1, 2, 4, 8, 16]


def test_a_refused_transfer_is_retried_at_the_next_tick(tmp_path: Path) -> None:
    group = FakeLedGroup()
    leaders = make_led_groups(tmp_path, group)
    leaders.record_connected(OTHER.node_id, 0.0)
    group.refusal = Overloaded("not caught up")
    leaders.tick(5.0)
    group.refusal = None
    leaders.tick(5.1)
    assert group.asked == [OTHER]


def test_groups_with_their_preferred_leader_stay(tmp_path: Path) -> None:
    group = FakeLedGroup()
    leaders = make_led_groups(tmp_path, group)
    leaders.record_connected(OTHER.node_id, 0.0)
    for preferred in (None, ME):
        leaders.preferred = lambda group_id, preferred=preferred: preferred  # type: ignore[misc]
        leaders.tick(5.0)
    assert group.asked == []


async def test_a_stop_hands_over_to_the_preferred_or_best_target(tmp_path: Path) -> None:
    group = FakeLedGroup()
    leaders = make_led_groups(tmp_path, group)
    leaders.record_connected(THIRD.node_id, 0.0)

    def taken(target: ReplicaId) -> None:
        group.asked.append(target)
        leaders.record_role(group, Role.FOLLOWER)  # type: ignore[arg-type]

    group.transfer_leadership = taken  # type: ignore[method-assign]
    assert await leaders.hand_over_all(5.0) == 0
    assert group.asked == [THIRD], "the preferred one is not connected"


@pytest.mark.parametrize("seconds", [0.0, 0.05])
async def test_a_stop_waits_no_longer_than_its_bound(tmp_path: Path, seconds: float) -> None:
    assert await make_led_groups(tmp_path, FakeLedGroup()).hand_over_all(seconds) == 1


def make_unfit(path: Path, *groups: FakeLedGroup, slow: bool = True) -> tuple[LedGroups, Fitness]:
    """Return leaders and fitness of a process with two peers that is slow, or whose disk is full."""
    fitness = Fitness(ME.node_id, 60_000)
    leaders = make_led_groups(path, *groups, fitness=fitness)
    for other in (OTHER, THIRD):
        leaders.record_connected(other.node_id, 0.0)
    if slow:
        fitness.record_stall(5.0)
        leaders.record_disk_stall(5.0)
    else:
        fitness.record_full(True)
    return leaders, fitness


@pytest.mark.parametrize("slow", [True, False])
def test_an_unfit_process_hands_over_all_leaderships_at_once(tmp_path: Path, slow: bool) -> None:
    groups = [FakeLedGroup(number) for number in range(1, 21)]
    leaders, _ = make_unfit(tmp_path, *groups, slow=slow)
    leaders.preferred = lambda group_id: ME
    leaders.tick(5.0)
    assert all(len(group.asked) == 1 and ME not in group.asked for group in groups)


def test_an_unfit_process_receives_no_leadership(tmp_path: Path) -> None:
    group = FakeLedGroup()
    leaders, fitness = make_unfit(tmp_path, group, slow=False)
    fitness.record_report(OTHER.node_id, 10_000, False, 5.0)
    leaders.tick(5.0)
    assert group.asked == [THIRD], "and not the preferred one"


def test_a_slow_leader_stays_when_no_majority_is_faster(tmp_path: Path) -> None:
    """F19: most disks are slow, so another leader would not commit sooner, and votes would be as slow."""
    group = FakeLedGroup()
    group.durable = 100  # the others have these entries too
    leaders, _ = make_unfit(tmp_path, group)
    leaders.tick(5.0)
    assert group.asked == []
    group.durable = 99
    leaders.record_disk_stall(6.0)
    leaders.tick(6.0)
    assert len(group.asked) == 1


def test_an_observation_of_one_group_counts_for_all(tmp_path: Path) -> None:
    busy, idle = FakeLedGroup(1), FakeLedGroup(2)
    idle.durable = 100
    leaders, _ = make_unfit(tmp_path, busy, idle)
    leaders.tick(5.0)
    assert (len(busy.asked), len(idle.asked)) == (1, 1)


def test_the_preferred_leader_waits_until_it_is_fit(tmp_path: Path) -> None:
    group, fitness = FakeLedGroup(), Fitness(ME.node_id, 60_000)
    leaders = make_led_groups(tmp_path, group, fitness=fitness)
    leaders.record_connected(OTHER.node_id, 0.0)
    fitness.record_report(OTHER.node_id, 3_000, False, 4.0)
    leaders.tick(6.9)
    assert group.asked == []
    leaders.tick(7.0)
    assert group.asked == [OTHER]


def test_all_leaders_stay_when_all_processes_are_slow(tmp_path: Path) -> None:
    group = FakeLedGroup()
    leaders, fitness = make_unfit(tmp_path, group)
    for other in (OTHER, THIRD):
        fitness.record_report(other.node_id, 10_000, False, 5.0)
    leaders.tick(5.0)
    assert group.asked == []
    assert group.given_up == 0


@pytest.mark.parametrize(("slow", "given_up"), [(True, 1), (False, 0)])
def test_a_slow_leader_without_a_successor_steps_down_and_a_full_one_stays(
    tmp_path: Path, slow: bool, given_up: int
) -> None:
    group = FakeLedGroup()
    leaders, _ = make_unfit(tmp_path, group, slow=slow)
    leaders.tick(5.0)
    leaders.tick(5.0 + leaders.transfer_timeout_s)
    assert group.given_up == given_up


def test_a_group_is_notified_when_too_few_disks_have_space(tmp_path: Path) -> None:
    group = FakeLedGroup()
    leaders, fitness = make_unfit(tmp_path, group, slow=False)
    leaders.count_room(5.0)
    assert not group.is_majority_full
    fitness.record_report(THIRD.node_id, 0, True, 5.0)
    leaders.tick(5.0)
    assert group.is_majority_full
    assert group.asked == [], "no other replica could lead better"
    fitness.record_report(THIRD.node_id, 0, False, 6.0)
    leaders.count_room(6.0)
    assert not group.is_majority_full


def test_a_group_that_reappears_is_checked_again(tmp_path: Path) -> None:
    group = FakeLedGroup()
    leaders, fitness = make_unfit(tmp_path, group, slow=False)
    fitness.record_report(THIRD.node_id, 0, True, 5.0)
    leaders.count_room(5.0)
    leaders.record_role(group, Role.FOLLOWER)  # type: ignore[arg-type]
    leaders.count_room(5.5)
    fitness.record_full(False)
    fitness.record_report(THIRD.node_id, 0, False, 6.0)
    leaders.record_role(group, Role.LEADER)  # type: ignore[arg-type]
    leaders.count_room(6.0)
    assert not group.is_majority_full


async def test_a_process_excluded_from_leading_hands_over_where_possible(tmp_path: Path) -> None:
    fitness = Fitness(ME.node_id, 60_000)
    unwanted = {ME.node_id}
    fitness.is_excluded = unwanted.__contains__
    groups = [FakeLedGroup(number) for number in range(1, 6)]
    leaders = make_led_groups(tmp_path, *groups, fitness=fitness, transfers_max=2)
    leaders.preferred = lambda group_id: ME
    leaders.record_connected(THIRD.node_id, 0.0)
    leaders.tick(0.1)
    assert [group.asked for group in groups] == [[THIRD]] * 5, "all at once, and no matter who is preferred"
    assert await leaders.remaining_leaderships() == (5, 5, 5, 0, [])
    unwanted.add(THIRD.node_id)
    leaders.tick(60.0)
    assert [len(group.asked) for group in groups] == [1] * 5, "nor to a broker that shall lead nothing"
    assert await leaders.remaining_leaderships() == (5, 0, 0, 5, [group.group_id for group in groups])
    leaders.record_connected(OTHER.node_id, 60.0)
    leaders.tick(99.0)
    assert [group.asked for group in groups] == [[THIRD, OTHER]] * 5


def test_leaderships_are_not_moved_back_when_balancing_is_off(tmp_path: Path) -> None:
    group = FakeLedGroup()
    leaders = make_led_groups(tmp_path, group)
    leaders.balances_leaders = lambda: False
    leaders.record_connected(OTHER.node_id, 0.0)
    leaders.tick(9.0)
    assert group.asked == []
    leaders.balances_leaders = lambda: True
    leaders.tick(9.1)
    assert group.asked == [OTHER]
