"""Majorities, simple and joint. Pure arithmetic over voters; a joint configuration needs both of its halves.

Votes and acknowledgements are looked up by voter identity, never counted as messages, so a duplicate counts once.
"""

from collections.abc import Container, Mapping, Sequence
from enum import Enum, auto

from raftlog.raft.configuration import Configuration, ReplicaId


class VoteOutcome(Enum):
    """State of an election."""

    WON = auto()
    LOST = auto()
    PENDING = auto()


def majority_size(voters: int) -> int:
    """Return the size of a majority of `voters`."""
    return voters // 2 + 1


def majority_value(values: Sequence[int]) -> int:
    """Return the highest value that a majority has reached: of [9, 4, 7] it is 7, of [9, 4, 7, 5] it is 5."""
    return sorted(values)[(len(values) - 1) // 2]


def quorum_value(voters: Sequence[int], outgoing: Sequence[int]) -> int:
    """Return the highest value that a quorum has reached: a majority of the voters and, while joint, of the outgoing.

    The arguments are the values of the voters and of the outgoing voters, none if the configuration is not joint."""
    value = majority_value(voters)
    return min(value, majority_value(outgoing)) if outgoing else value


def has_quorum(configuration: Configuration, agreeing: Container[ReplicaId]) -> bool:
    """Return whether the replicas that agree are a majority of the voters and, while joint, of the outgoing ones."""
    if not configuration.voters:
        return False
    return _has_majority(configuration.voters, agreeing) and (
        not configuration.outgoing or _has_majority(configuration.outgoing, agreeing)
    )


def vote_outcome(configuration: Configuration, votes: Mapping[ReplicaId, bool]) -> VoteOutcome:
    """Return the state of an election after `votes`; votes of replicas that are no voters change nothing."""
    if has_quorum(configuration, {voter for voter, is_granted in votes.items() if is_granted}):
        return VoteOutcome.WON
    refused = {voter for voter, is_granted in votes.items() if not is_granted}
    for half in (configuration.voters, configuration.outgoing):
        if half and sum(voter not in refused for voter in half) < majority_size(len(half)):
            return VoteOutcome.LOST
    return VoteOutcome.PENDING


def _has_majority(voters: Sequence[ReplicaId], agreeing: Container[ReplicaId]) -> bool:
    """Return whether a majority of the voters is in `agreeing`."""
    return sum(voter in agreeing for voter in voters) >= majority_size(len(voters))
