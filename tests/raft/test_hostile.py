"""Arbitrary messages of another replica are refused or accepted, and never break an invariant of the core.

A lying voter can make a Raft group lose acknowledged entries (Raft assumes that there is none), so only the
process's own invariants are checked here. Messages of replicas outside of the Raft group must have no effect."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.raft import Configuration, Entry, EntryId, EntryKind, Proposal, Role
from raftlog.raft.entry import TERM_MAX, TERM_STEP_MAX, TERM_TAKEN_MAX
from raftlog.raft.message_errors import Contradiction, RefusedMessage, TermRefused
from raftlog.raft.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    InstallOffer,
    InstallResponse,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    ReadIndexRequest,
    ReadIndexResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
    Wake,
    WakeResponse,
)
from raftlog.types import Index, Term
from tests.raft.cluster import replica_id
from tests.raft.lone import ONE, TWO, LoneFollower, entry, entry_id

THREE, STRANGER = replica_id(3), replica_id(9)
_LAST = 12

_OWN = 7
"""Term of a message that equals the replica's own, which most invariants are about."""

near_the_last = st.sampled_from([TERM_TAKEN_MAX, TERM_TAKEN_MAX + 1, TERM_MAX])
terms = st.one_of(st.integers(0, 8), st.just(_OWN), st.just(_OWN), near_the_last).map(Term)
indexes = st.integers(0, _LAST).map(Index)
sequences = st.integers(0, 8)
ids = st.builds(EntryId, indexes, terms)
flags = st.booleans()
replicas = st.sampled_from([ONE, THREE, STRANGER])
voters = st.lists(st.sampled_from([ONE, TWO, THREE, STRANGER]), unique=True, max_size=4).map(
    lambda each: tuple(sorted(each))
)


@st.composite
def appends(draw: st.DrawFn) -> AppendRequest:
    previous = draw(ids)
    entries = []
    for at, term in enumerate(draw(st.lists(terms, max_size=4)), 1):
        index = Index(previous.index + at)
        if draw(st.integers(0, 5)):
            entries.append(entry(index, term))
        else:
            changed = Configuration(index, draw(voters), draw(voters), draw(voters))
            entries.append(Entry(index, term, EntryKind.CONFIGURATION, 1, None, changed))
    return AppendRequest(
        draw(replicas), TWO, draw(terms), draw(sequences), previous, tuple(entries), draw(indexes), draw(flags)
    )


to = st.just(TWO)
messages: st.SearchStrategy[Message] = st.one_of(
    appends(),
    st.builds(AppendResponse, replicas, to, terms, sequences, flags, indexes, indexes, indexes, st.none() | ids),
    st.builds(Heartbeat, replicas, to, terms, sequences, indexes, st.none() | ids, flags),
    st.builds(HeartbeatResponse, replicas, to, terms, sequences, indexes, indexes, flags, flags),
    st.builds(PreVoteRequest, replicas, to, terms, sequences, terms, ids),
    st.builds(PreVoteResponse, replicas, to, terms, sequences, terms, flags),
    st.builds(VoteRequest, replicas, to, terms, sequences, ids, flags),
    st.builds(VoteResponse, replicas, to, terms, sequences, flags),
    st.builds(TimeoutNow, replicas, to, terms),
    st.builds(ReadIndexRequest, replicas, to, terms, sequences),
    st.builds(ReadIndexResponse, replicas, to, terms, sequences, st.none() | indexes),
    st.builds(InstallOffer, replicas, to, terms, sequences, ids, indexes),
    st.builds(InstallResponse, replicas, to, terms, sequences, ids, flags, indexes),
    st.builds(Wake, replicas, to, terms),
    st.builds(WakeResponse, replicas, to, terms),
)
actions = st.one_of(messages, st.sampled_from(["tick", "campaign", "propose", "read", "grant"]))


def run_action(replica: LoneFollower, action: Any) -> None:
    core = replica.core
    if action == "tick":
        core.tick()
    elif action == "campaign":
        core.campaign()
    elif action == "propose":
        core.propose([Proposal("x", 1)])
    elif action == "read":
        core.read_index("r")
    elif action == "grant":
        grant_votes(replica)
    else:
        core.step(action._replace(term=core.term) if action.term == _OWN else action)
    replica.handle_readys()


def grant_votes(replica: LoneFollower) -> None:
    """Answer the replica's last requests for votes to node 1, and grant them."""
    for said in list(replica.sent):
        if isinstance(said, PreVoteRequest) and said.to == ONE:
            replica.core.step(PreVoteResponse(ONE, TWO, said.term, said.sequence, said.campaign_term, True))
        elif isinstance(said, VoteRequest) and said.to == ONE:
            replica.core.step(VoteResponse(ONE, TWO, said.term, said.sequence, True))


@settings(max_examples=160)
@given(st.lists(st.integers(0, 3), max_size=4).map(sorted), st.data(), st.lists(actions, max_size=25))
def test_no_message_breaks_an_invariant(log: list[int], data: st.DataObject, taken: list[Any]) -> None:
    replica = LoneFollower(*log, committed=data.draw(st.integers(0, len(log))))
    for action in taken:
        term, committed, terms = replica.core.term, replica.core.committed_index, replica.terms()
        try:
            run_action(replica, action)
        except RefusedMessage:
            return  # the driver stops a replica that a member contradicts; before that nothing is broken
        assert replica.core.term >= term
        assert replica.core.committed_index >= committed
        assert replica.terms()[:committed] == terms[:committed]


@settings(max_examples=80)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4).map(sorted), st.lists(messages, max_size=25))
def test_a_leader_survives_any_message(log: list[int], received: list[Message]) -> None:
    replica = LoneFollower(*log)
    replica.core.campaign()
    replica.handle_readys()
    for _ in range(2):
        grant_votes(replica)
        replica.handle_readys()
    assert replica.core.role is Role.LEADER
    for message in received:
        try:
            run_action(replica, message)
        except RefusedMessage:
            return


# two leaders


def test_the_error_for_a_second_leader_has_both_messages() -> None:
    replica = LoneFollower(1)
    first = Heartbeat(ONE, TWO, Term(2), 1, Index(0))
    replica.core.step(first)
    second = AppendRequest(THREE, TWO, Term(2), 1, entry_id(1, 1), (entry(Index(2), Term(2)),), Index(0))
    with pytest.raises(Contradiction, match="two leaders in term 2") as found:
        replica.core.step(second)
    assert found.value.known == first
    assert found.value.offending == second._replace(entries=()), "what is kept does not keep records alive"
    assert (replica.core.leader, replica.terms()) == (ONE, [1])


@pytest.mark.parametrize("kind", [Heartbeat, TimeoutNow, InstallOffer])
def test_a_message_of_another_leader_of_the_term_is_refused(kind: type) -> None:
    replica = LoneFollower(1)
    replica.core.campaign()
    replica.handle_readys()
    for _ in range(2):
        grant_votes(replica)
        replica.handle_readys()
    term = replica.core.term
    message: Message = {
        Heartbeat: Heartbeat(STRANGER, TWO, term, 1, Index(0)),
        TimeoutNow: TimeoutNow(STRANGER, TWO, term),
        InstallOffer: InstallOffer(STRANGER, TWO, term, 1, entry_id(1, 1), Index(0)),
    }[kind]
    with pytest.raises(Contradiction) as found:
        replica.core.step(message)
    assert found.value.known is None
    assert replica.core.role is Role.LEADER


def test_changed_entries_of_the_same_leader_are_refused() -> None:
    replica = LoneFollower(1)
    replica.append(2, entry_id(1, 1), 2, 2)
    with pytest.raises(Contradiction, match="entry 2 of a leader differs"):
        replica.append(2, entry_id(1, 1), 1)
    assert replica.terms() == [1, 2, 2]


# terms


def test_a_term_near_the_last_one_is_refused() -> None:
    """A replica in the last term can never campaign again, so no message may raise its term that far."""
    replica = LoneFollower(1)
    hostile: list[Message] = [
        VoteRequest(ONE, TWO, Term(TERM_MAX), 1, entry_id(9, 9), True),
        VoteRequest(ONE, TWO, Term(TERM_TAKEN_MAX + 1), 1, entry_id(9, 9), True),
        PreVoteRequest(ONE, TWO, Term(1), 1, Term(TERM_MAX), entry_id(9, 9)),
        Heartbeat(ONE, TWO, Term(TERM_MAX), 1, Index(0)),
    ]
    for message in hostile:
        with pytest.raises(TermRefused, match="too near to the last one"):
            replica.core.step(message)
        assert replica.core.term == 1


def test_a_raft_group_near_the_last_term_continues() -> None:
    """One message can raise a term to the bound; elections must still be possible after it."""
    replica = LoneFollower(term=TERM_TAKEN_MAX)
    replica.core.step(VoteRequest(ONE, TWO, Term(TERM_TAKEN_MAX + 1), 1, entry_id(9, 9), True))
    assert replica.core.term == TERM_TAKEN_MAX + 1
    with pytest.raises(TermRefused):
        replica.core.step(Heartbeat(ONE, TWO, Term(TERM_TAKEN_MAX + 2 + TERM_STEP_MAX), 1, Index(0)))


# acknowledgements


@pytest.mark.parametrize("kind", [AppendResponse, HeartbeatResponse, InstallResponse])
def test_followers_cannot_acknowledge_entries_that_the_leader_lacks(kind: type) -> None:
    replica = LoneFollower(1)
    replica.core.campaign()
    replica.handle_readys()
    for _ in range(2):
        grant_votes(replica)
        replica.handle_readys()
    last, term = replica.core.last_id.index, replica.core.term
    beyond = Index(last + 5)
    for follower in (ONE, THREE):
        message: Message = {
            AppendResponse: AppendResponse(follower, TWO, term, 1, True, last, beyond, beyond),
            HeartbeatResponse: HeartbeatResponse(follower, TWO, term, 1, last, beyond),
            InstallResponse: InstallResponse(follower, TWO, term, 1, EntryId(beyond, term), True, beyond),
        }[kind]
        run_action(replica, message)
    assert replica.core.committed_index < last, "nothing was acknowledged that exists"
