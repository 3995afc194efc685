"""A hint that a process may be down: its quiesced Raft groups check it, without another effect."""

from dataclasses import replace

from raftlog.raft import RaftSettings
from raftlog.types import NodeId
from tests.runtime.drivers import SMALL, World

SLEEPY = replace(SMALL, raft=RaftSettings(quiesce_after_ticks=20))


def quiesced_flags(world: World) -> list[bool]:
    return [world.group(number).core.is_quiesced for number in (1, 2, 3)]


def test_a_doubted_leader_that_is_up_stays_leader_and_quiesces_again() -> None:
    with World(config=SLEEPY) as world:
        leader = world.leader()
        world.run_until(lambda: all(quiesced_flags(world)), 60)
        term = world.group(leader).core.term
        doubting = next(number for number in (1, 2, 3) if number != leader)
        world.run_at(doubting, lambda: world.drivers[doubting].doubt(NodeId(leader)))
        assert not quiesced_flags(world)[doubting - 1]
        world.run_until(lambda: all(quiesced_flags(world)), 60)
        assert world.leader() == leader
        assert {world.group(number).core.term for number in (1, 2, 3)} == {term}


def test_a_leader_checks_a_doubted_follower() -> None:
    with World(config=SLEEPY) as world:
        leader = world.leader()
        world.run_until(lambda: all(quiesced_flags(world)), 60)
        follower = next(number for number in (1, 2, 3) if number != leader)
        world.run_at(leader, lambda: world.drivers[leader].doubt(NodeId(follower)))
        assert not quiesced_flags(world)[leader - 1]
        world.run_until(lambda: all(quiesced_flags(world)), 60)


def test_a_node_known_as_down_is_not_doubted() -> None:
    with World(config=SLEEPY) as world:
        leader = world.leader()
        world.run_until(lambda: all(quiesced_flags(world)), 60)
        world.crash(leader)
        world.run_until(lambda: world.leader() != leader)
        successor = world.leader()
        world.run_at(successor, lambda: world.drivers[successor].doubt(NodeId(leader)))
        assert world.leader() == successor
