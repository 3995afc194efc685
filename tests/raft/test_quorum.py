"""Majorities compared with brute force over all subsets of voters."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from raftlog.raft.configuration import Configuration, ReplicaId
from raftlog.raft.quorum import VoteOutcome, has_quorum, majority_size, quorum_value, vote_outcome
from raftlog.types import Index
from tests.raft.cluster import replica_id

_EVERYONE = [replica_id(number) for number in range(1, 8)]
_voters = st.lists(st.sampled_from(_EVERYONE), min_size=1, max_size=5, unique=True).map(tuple)
_outgoing = st.one_of(st.just(()), _voters)


@st.composite
def _configurations(draw: st.DrawFn) -> Configuration:
    return Configuration(Index(1), draw(_voters), (), draw(_outgoing))


def _is_quorum_by_hand(configuration: Configuration, members: set[ReplicaId]) -> bool:
    """Return whether `members` contain a majority of each half."""
    return all(
        any(set(subset) <= members for subset in combinations(half, majority_size(len(half))))
        for half in (configuration.voters, configuration.outgoing)
        if half
    )


@given(_configurations(), st.sets(st.sampled_from(_EVERYONE)))
def test_has_quorum_equals_brute_force(configuration: Configuration, agreeing: set[ReplicaId]) -> None:
    assert has_quorum(configuration, agreeing) == _is_quorum_by_hand(configuration, agreeing)


@given(_configurations(), st.dictionaries(st.sampled_from(_EVERYONE), st.integers(0, 9)))
def test_quorum_value_equals_brute_force(configuration: Configuration, reached: dict[ReplicaId, int]) -> None:
    value = quorum_value(
        [reached.get(voter, 0) for voter in configuration.voters],
        [reached.get(voter, 0) for voter in configuration.outgoing],
    )
    by_hand = max(
        value
        for value in range(10)
        if _is_quorum_by_hand(configuration, {member for member in _EVERYONE if reached.get(member, 0) >= value})
    )
    assert value == by_hand


@given(_configurations(), st.dictionaries(st.sampled_from(_EVERYONE), st.booleans()))
def test_vote_outcome_equals_brute_force(configuration: Configuration, votes: dict[ReplicaId, bool]) -> None:
    granted = {voter for voter, is_granted in votes.items() if is_granted}
    hoped = granted | (set(_EVERYONE) - set(votes))
    if _is_quorum_by_hand(configuration, granted):
        expected = VoteOutcome.WON
    elif _is_quorum_by_hand(configuration, hoped):
        expected = VoteOutcome.PENDING
    else:
        expected = VoteOutcome.LOST
    assert vote_outcome(configuration, votes) is expected


@given(_configurations(), st.sets(st.sampled_from(_EVERYONE)), st.sets(st.sampled_from(_EVERYONE)))
def test_two_quorums_of_a_configuration_overlap(
    configuration: Configuration, one: set[ReplicaId], other: set[ReplicaId]
) -> None:
    if has_quorum(configuration, one) and has_quorum(configuration, other):
        assert one & other


@given(_voters, _voters, st.sets(st.sampled_from(_EVERYONE)), st.sets(st.sampled_from(_EVERYONE)))
def test_a_joint_quorum_overlaps_with_quorums_before_and_after(
    old: tuple[ReplicaId, ...], new: tuple[ReplicaId, ...], joint: set[ReplicaId], simple: set[ReplicaId]
) -> None:
    if has_quorum(Configuration(Index(1), new, (), old), joint):
        for voters in (old, new):
            if has_quorum(Configuration(Index(1), voters), simple):
                assert joint & simple
