"""Next step of a group member after each error of the coordinator."""

import pytest

from raftlog.assignors.member import MemberProtocol, NextStep
from raftlog.errors import (
    FencedInstance,
    OutcomeUnknown,
    RaftlogError,
    RebalanceInProgress,
    StaleGeneration,
    Unavailable,
    UnknownMember,
)


@pytest.mark.parametrize(
    ("error", "step", "identity"),
    [
        (RebalanceInProgress("a new generation"), NextStep.REJOIN, ("m-1", 3)),
        (Unavailable("no coordinator"), NextStep.RETRY, ("m-1", 3)),
        (OutcomeUnknown("no answer"), NextStep.RETRY, ("m-1", 3)),
        (StaleGeneration("generation 4"), NextStep.LOST, ("m-1", -1)),
        (UnknownMember("no such member"), NextStep.LOST, ("", -1)),
        (FencedInstance("another one"), NextStep.FATAL, ("m-1", 3)),
    ],
)
def test_the_next_step_follows_from_the_error(error: RaftlogError, step: NextStep, identity: tuple[str, int]) -> None:
    member = MemberProtocol()
    assert (member.member_id, member.generation) == ("", -1)
    member.set_identity("m-1", 3)
    assert member.handle_error(error) is step
    assert (member.member_id, member.generation) == identity
