"""Protocol state of a group member, without I/O: its identity, and its next step after an error of the coordinator.

    join → sync → heartbeats → REJOIN (a rebalance began) → join …
                             → LOST   (the group continued without it) → join as a new member or in a new generation
                             → RETRY  (no coordinator for now, or no answer) → the same request
                             → FATAL  (a permanent error, such as another protocol or a fenced instance)

Used by clients over HTTP (`raftlog.client.consumers.group_session`), and by consumer instances in a broker's process
(`raftlog.partitions.consumers.member`)."""

from enum import Enum

from raftlog.errors import (
    OutcomeUnknown,
    RaftlogError,
    RebalanceInProgress,
    StaleGeneration,
    Unavailable,
    UnknownMember,
)


class NextStep(Enum):
    """Next step of a group member after an error; the module docstring explains each."""

    REJOIN = "rejoin"
    LOST = "lost"
    RETRY = "retry"
    FATAL = "fatal"


class MemberProtocol:
    """Identity of a group member and its reaction to errors.

    `member_id` is empty before the first join and after the coordinator has removed the member; `generation` is
    -1 while the member has no assignment."""

    def __init__(self, member_id: str = "") -> None:
        self.member_id = member_id
        self.generation = -1

    def set_identity(self, member_id: str, generation: int) -> None:
        """Set member id and generation after a successful join and sync."""
        self.member_id, self.generation = member_id, generation

    def handle_error(self, error: RaftlogError) -> NextStep:
        """Return the next step after an error of the coordinator; clear a member id that is no longer valid there."""
        if isinstance(error, RebalanceInProgress):
            return NextStep.REJOIN
        if isinstance(error, UnknownMember | StaleGeneration):
            if isinstance(error, UnknownMember):
                self.member_id = ""
            self.generation = -1
            return NextStep.LOST
        return NextStep.RETRY if isinstance(error, Unavailable | OutcomeUnknown) else NextStep.FATAL
