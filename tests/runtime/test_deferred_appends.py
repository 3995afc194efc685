"""Appends that the quorum does not need: sent later, in groups, and soon when the quorum is slow (simulated time)."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from raftlog.raft import RaftSettings
from tests.runtime.drivers import SMALL, World

DELAY_S, QUORUM_S, ROUND_TRIP_S = 0.5, 0.2, 0.05


@pytest.fixture
def world() -> Iterator[World]:
    """Yield three nodes with a delay and a wait far longer than the time of a commit."""
    raft = RaftSettings(deferred_bytes_max=16 * 1024)
    waits = {"deferral_ms": round(DELAY_S * 1000), "quorum_wait_ms": round(QUORUM_S * 1000)}
    with World(config=replace(SMALL, raft=raft, **waits)) as world:
        world.fill(world.leader(), 3)
        world.converge()
        world.run(1)
        yield world


def seconds(world: World) -> float:
    return world.loop.now_ns / 1e9


def last_indexes(world: World) -> list[int]:
    """Return the last index of the log of each node, ascending."""
    return sorted(world.group(number).log.last_index for number in (1, 2, 3))


def test_commits_of_the_quorum_reach_the_other_follower_together(world: World) -> None:
    leader, began = world.leader(), seconds(world)
    first = last_indexes(world)[0]
    for number in range(5):
        world.commit(leader, b"%d" % number)
        assert last_indexes(world) == [first, first + number + 1, first + number + 1]
    assert seconds(world) - began < QUORUM_S
    world.run_until(lambda: last_indexes(world)[0] > first)
    assert last_indexes(world) == [first + 5] * 3, "one append has them all"
    assert DELAY_S <= seconds(world) - began < DELAY_S + ROUND_TRIP_S


def test_turns_of_later_commits_send_what_is_due(world: World) -> None:
    leader, began = world.leader(), seconds(world)
    first = last_indexes(world)[0]
    while last_indexes(world)[0] == first:
        world.commit(leader, b"again")
    assert DELAY_S <= seconds(world) - began < DELAY_S + ROUND_TRIP_S


def test_appends_deferred_in_a_turn_without_a_ready_are_sent_in_time(world: World) -> None:
    """The answer of a follower that was probed does this; here the first deferral is forgotten."""
    leader = world.leader()
    world.commit(leader, b"deferred for one follower")
    first, driver, group = last_indexes(world)[0], world.drivers[leader], world.group(leader)
    world.run_at(leader, driver._deferred_appends.stop)
    assert group.core.are_appends_deferred
    began = seconds(world)
    world.run_at(leader, lambda: driver.mark_dirty(group))
    assert driver._deferred_appends._timer is not None, "it does not wait for a Ready, such as a heartbeat's"
    world.run_until(lambda: last_indexes(world)[0] > first)
    assert seconds(world) - began < DELAY_S + ROUND_TRIP_S


def test_a_slow_quorum_delays_a_commit_by_its_wait_only(world: World) -> None:
    """The follower of the quorum is found by a commit, and ends; the next commit needs the other one."""
    leader = world.leader()
    world.commit(leader, b"shows the quorum")
    newest = world.group(leader).log.last_index
    fast = next(number for number in (1, 2, 3) if number != leader and world.group(number).log.last_index == newest)
    world.converge()
    world.commit(leader, b"begins a deferral")
    world.crash(fast)
    began = seconds(world)
    world.commit(leader, b"needs the other follower")
    assert QUORUM_S <= seconds(world) - began < QUORUM_S + ROUND_TRIP_S


def test_a_quorum_that_becomes_slow_during_a_deferral_delays_a_commit_by_its_wait_only(world: World) -> None:
    """The timer then already waits for the end of the deferral, which is later."""
    leader = world.leader()
    world.commit(leader, b"shows the quorum")
    newest = world.group(leader).log.last_index
    fast = next(number for number in (1, 2, 3) if number != leader and world.group(number).log.last_index == newest)
    world.converge()
    world.commit(leader, b"begins a deferral")
    world.run(QUORUM_S)
    world.crash(fast)
    began = seconds(world)
    world.commit(leader, b"needs the other follower")
    assert QUORUM_S <= seconds(world) - began < QUORUM_S + ROUND_TRIP_S


def test_the_wait_grows_with_the_usual_time_of_commits(world: World) -> None:
    """The quorum is slow because all disks are; the wait has to exceed the time of a sync, or it is no wait."""
    world.config = replace(world.config, quorum_wait_ms=1)
    for number in (1, 2, 3):
        world.crash(number)
        world.start(number)
    leader = world.leader()
    world.converge()
    world.run(1)
    waits = []
    for number in range(40):
        first = last_indexes(world)[0]
        world.commit(leader, b"%d" % number)
        waits.append(last_indexes(world)[0] == first)
        world.run(DELAY_S + ROUND_TRIP_S)
    assert all(waits[20:]), "no append is sent before its quorum had the usual time"
