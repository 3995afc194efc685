"""When leaderships are handed over, when not, and how often it is tried; without a network."""

import itertools
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.errors import Overloaded
from raftlog.partitions.multiraft.leaders import Leaders
from raftlog.raft import ReplicaId, Role
from raftlog.raft.ready import FollowerStatus
from raftlog.types import Index, NodeId
from tests.multiraft.nodes import settings_of

ME, OTHER, THIRD = (ReplicaId(NodeId(number), uuid.UUID(int=number)) for number in (1, 2, 3))


class Led:
    """A group led here, as far as `Leaders` looks at one."""

    def __init__(self, number: int = 1, match: int = 100) -> None:
        self.group_id = uuid.UUID(int=number)
        self.key, self.path = self.group_id.bytes, f"/data/{number}"
        self.asked: list[ReplicaId] = []
        self.refusal: Exception | None = None
        followers = [FollowerStatus(each, "replicate", Index(match), Index(match + 1), True) for each in (OTHER, THIRD)]
        self.core = SimpleNamespace(
            is_asleep=False,
            last_id=SimpleNamespace(index=100),
            configuration=SimpleNamespace(has_voter=lambda member: True, all_voters=lambda: (ME, OTHER, THIRD)),
            status=lambda: SimpleNamespace(followers=followers),
        )

    def transfer_leadership(self, target: ReplicaId) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append(target)


def leaders_of(path: Path, *groups: Led, **changes: Any) -> Leaders:
    leaders = Leaders(ME, settings_of(path, 1, transfer_retry_ms=1_000, settle_ms=1_000, **changes))
    leaders.preferred = lambda group_id: OTHER
    for group in groups:
        leaders.note_role(group, Role.LEADER)  # type: ignore[arg-type]
    return leaders


def test_only_a_node_that_has_settled_is_given_leaderships(tmp_path: Path) -> None:
    group = Led()
    leaders = leaders_of(tmp_path, group)
    leaders.tick(0.0)
    leaders.note_connected(OTHER.node_id, 1.0)
    leaders.tick(1.9)
    assert group.asked == []
    leaders.tick(2.0)
    assert group.asked == [OTHER]


def test_a_node_that_stops_or_is_gone_is_given_nothing_until_it_comes_back(tmp_path: Path) -> None:
    group = Led()
    leaders = leaders_of(tmp_path, group)
    leaders.note_connected(OTHER.node_id, 0.0)
    leaders.note_leaving(OTHER.node_id)
    leaders.tick(5.0)
    leaders.note_gone(OTHER.node_id)
    leaders.tick(6.0)
    assert group.asked == []
    leaders.note_connected(OTHER.node_id, 7.0)
    leaders.tick(8.0)
    assert group.asked == [OTHER]


def test_whoever_lags_is_given_nothing(tmp_path: Path) -> None:
    near, far = Led(1, match=90), Led(2, match=89)
    leaders = leaders_of(tmp_path, near, far, transfer_lag_entries_max=10)
    leaders.note_connected(OTHER.node_id, 0.0)
    leaders.tick(5.0)
    assert (near.asked, far.asked) == ([OTHER], [])


def test_few_move_at_the_same_time(tmp_path: Path) -> None:
    groups = [Led(number) for number in range(1, 6)]
    leaders = leaders_of(tmp_path, *groups, transfers_max=2)
    leaders.note_connected(OTHER.node_id, 0.0)
    leaders.tick(5.0)
    assert [len(group.asked) for group in groups] == [1, 1, 0, 0, 0]
    for group in groups[:2]:
        leaders.note_role(group, Role.FOLLOWER)  # type: ignore[arg-type]
    leaders.tick(5.1)
    assert [len(group.asked) for group in groups] == [1, 1, 1, 1, 0]


def test_a_group_that_is_not_taken_over_rests_longer_and_longer(tmp_path: Path) -> None:
    group = Led()
    leaders = leaders_of(tmp_path, group)
    leaders.note_connected(OTHER.node_id, 0.0)
    asked_at = []
    for tenth in range(10, 400):
        before = len(group.asked)
        leaders.tick(tenth / 10)
        if len(group.asked) > before:
            asked_at.append(tenth / 10)
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(asked_at)]
    assert pauses == [1, 2, 4, 8, 16]


def test_a_refusal_costs_nothing_and_is_tried_again(tmp_path: Path) -> None:
    group = Led()
    leaders = leaders_of(tmp_path, group)
    leaders.note_connected(OTHER.node_id, 0.0)
    group.refusal = Overloaded("not caught up")
    leaders.tick(5.0)
    group.refusal = None
    leaders.tick(5.1)
    assert group.asked == [OTHER]


def test_groups_led_where_they_should_be_stay(tmp_path: Path) -> None:
    group = Led()
    leaders = leaders_of(tmp_path, group)
    leaders.note_connected(OTHER.node_id, 0.0)
    for preferred in (None, ME):
        leaders.preferred = lambda group_id, preferred=preferred: preferred  # type: ignore[misc]
        leaders.tick(5.0)
    assert group.asked == []


async def test_at_the_end_the_preferred_or_the_best_heir_takes_over(tmp_path: Path) -> None:
    group = Led()
    leaders = leaders_of(tmp_path, group)
    leaders.note_connected(THIRD.node_id, 0.0)

    def taken(target: ReplicaId) -> None:
        group.asked.append(target)
        leaders.note_role(group, Role.FOLLOWER)  # type: ignore[arg-type]

    group.transfer_leadership = taken  # type: ignore[method-assign]
    assert await leaders.hand_over_all(5.0) == 0
    assert group.asked == [THIRD], "the preferred one is not connected"


@pytest.mark.parametrize("seconds", [0.0, 0.05])
async def test_the_end_waits_no_longer_than_it_may(tmp_path: Path, seconds: float) -> None:
    assert await leaders_of(tmp_path, Led()).hand_over_all(seconds) == 1
