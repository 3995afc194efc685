"""Messages that no correct replica sends, at real drivers in virtual time: the process continues, nothing is lost."""

import logging
import uuid

import pytest

from raftlog.errors import OutcomeUnknown, Unavailable
from raftlog.raft import ReplicaId, Role
from raftlog.raft.entry import TERM_MAX
from raftlog.raft.messages import AppendRequest, Heartbeat, Message, VoteRequest
from raftlog.records import ControlKind, build_control_batch, stamp
from raftlog.runtime.log.control_entries import entry_of
from raftlog.runtime.transport import Envelope
from raftlog.types import Index, NodeId, Offset, Term
from tests.runtime.drivers import GROUP, World

STRANGER = ReplicaId(NodeId(9), uuid.UUID(int=9))


def deliver(world: World, number: int, message: Message) -> None:
    """Deliver a message of another process."""
    envelope = Envelope(GROUP.bytes, message)
    world.run_at(number, lambda: world.drivers[number].receive(message.sender.node_id, [envelope]))


def heartbeat(world: World, sender: ReplicaId, to: int) -> Heartbeat:
    """Return a heartbeat of a leader in the receiver's term."""
    return Heartbeat(sender, world.ids[to - 1], world.group(to).core.term, 1, Index(0))


def other_numbers(number: int) -> list[int]:
    return [other for other in (1, 2, 3) if other != number]


def logged_events(caplog: pytest.LogCaptureFixture, name: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage() == name]


def test_a_stranger_that_claims_leadership_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 3)
        for number in (1, 2, 3):
            refused = world.drivers[number].messages_refused
            deliver(world, number, heartbeat(world, STRANGER, number))
            assert world.drivers[number].messages_refused == refused + 1
            assert world.group(number).stopped is None
        assert len(logged_events(caplog, "contradiction_dropped")) == 3
        assert world.leader() == leader
        world.fill(leader, 3)
        assert not world.failures


def test_a_follower_contradicted_by_a_member_stops_until_its_restart(caplog: pytest.LogCaptureFixture) -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 3)
        follower, liar = other_numbers(leader)
        deliver(world, follower, heartbeat(world, world.ids[liar - 1], follower))
        (event,) = logged_events(caplog, "replica_stopped")
        assert f"two leaders in term {world.group(leader).core.term}" in event.why  # type: ignore[attr-defined]
        assert f"sender={world.ids[liar - 1]}" in event.offending  # type: ignore[attr-defined]
        assert f"sender={world.ids[leader - 1]}" in event.contradicts  # type: ignore[attr-defined]
        stopped, end = world.group(follower), world.group(follower).core.last_id
        world.fill(leader, 30)
        world.run(5)
        assert stopped.core.last_id == end, "it takes nothing, and does not campaign"
        assert stopped.core.term == world.group(leader).core.term
        with pytest.raises(Unavailable, match="its replica here was stopped"):
            world.run_at(follower, stopped.read_index)[0].result()  # type: ignore[attr-defined]
        completed = world.drivers[follower].persister.checkpoints.completed
        world.drivers[follower].persister.checkpoints.request()
        world.run_until(lambda: world.drivers[follower].persister.checkpoints.completed > completed)
        world.crash(follower, power=True)
        world.start(follower)
        world.run_until(lambda: world.group(follower).applied_index == world.group(leader).applied_index)
        assert world.group(follower).stopped is None
        assert not world.failures


def test_a_leader_contradicted_by_a_member_stops_and_another_leads() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 3)
        for other in other_numbers(leader):
            world.network.cut(world.nodes[leader - 1], world.nodes[other - 1])
        proposed = world.propose(leader, b"of which nobody knows")
        deliver(world, leader, heartbeat(world, world.ids[other_numbers(leader)[0] - 1], leader))
        assert world.group(leader).core.role is Role.FOLLOWER
        with pytest.raises(OutcomeUnknown, match="stopped"):
            proposed.result()
        world.run_until(lambda: world.leader() != leader)
        world.fill(world.leader(), 3)
        assert not world.failures


def test_invalid_entries_of_a_leader_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Without the event no operator learns why the group does not proceed."""
    with World() as world:
        leader = world.leader()
        world.fill(leader, 3)
        follower = other_numbers(leader)[0]
        core = world.group(follower).core
        batch = build_control_batch(ControlKind.TRIM, b"no trim", 1000, next_offset=Offset(3))
        stamp(batch, Offset(3), core.term)
        entries = (entry_of(Index(core.last_id.index + 1), core.term, batch),)
        sender, to = world.ids[leader - 1], world.ids[follower - 1]
        deliver(world, follower, AppendRequest(sender, to, core.term, 1, core.last_id, entries, Index(0)))
        [reported] = logged_events(caplog, "entries_refused")
        assert (reported.index, reported.node) == (entries[0].index, sender.node_id)  # type: ignore[attr-defined]
        world.fill(leader, 3)
        assert not world.failures


def test_a_term_near_the_last_one_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with World() as world:
        leader = world.leader()
        term = world.group(leader).core.term
        for number in (1, 2, 3):
            candidate = world.ids[other_numbers(number)[0] - 1]
            last = world.group(number).core.last_id
            request = VoteRequest(candidate, world.ids[number - 1], Term(TERM_MAX), 1, last, True)
            deliver(world, number, request)
        assert len(logged_events(caplog, "term_refused")) == 3
        world.run(3)
        assert {world.group(number).core.term for number in (1, 2, 3)} == {term}
        world.crash(leader)
        assert world.leader() != leader
        assert not world.failures
