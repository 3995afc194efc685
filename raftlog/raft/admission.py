"""Which messages a replica takes at all, and what it says to those who are behind."""

from raftlog.raft.entry import TERM_MAX
from raftlog.raft.messages import (
    FROM_MEMBER,
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    InstallOffer,
    Message,
    PreVoteRequest,
)
from raftlog.raft.replica import Replica
from raftlog.types import Index


def is_acceptable(replica: Replica, message: Message) -> bool:
    """For us, from another one, of a possible term, whole, and not from a stranger with a term of his own.

    A replica that was removed may have made its term grow; its answers must not unseat a leader.
    """
    if message.to != replica.me or message.sender == replica.me or not 0 <= message.term <= TERM_MAX:
        return False
    if isinstance(message, AppendRequest):
        return is_whole(message)
    if isinstance(message, PreVoteRequest):
        return message.term < message.campaign_term <= TERM_MAX
    if message.term > replica.term and type(message) in FROM_MEMBER:
        return replica.configuration.has_member(message.sender)
    return True


def is_whole(message: AppendRequest) -> bool:
    """Whether the entries follow their predecessor and do not come from the future."""
    entries = message.entries
    if not entries:
        return True
    first, last = entries[0], entries[-1]
    return (
        first.index == message.previous.index + 1
        and last.index == message.previous.index + len(entries)
        and message.previous.term <= first.term <= last.term <= message.term
    )


def answer_stale(replica: Replica, message: Message) -> None:
    """A leader of an older term learns of ours; anything else of an older term says nothing."""
    me, to, term, none = replica.me, message.sender, replica.term, Index(0)
    if isinstance(message, (AppendRequest, InstallOffer)):
        replica.send(AppendResponse(me, to, term, message.sequence, False, none, none, none))
    elif isinstance(message, Heartbeat):
        replica.send(HeartbeatResponse(me, to, term, message.sequence, none, none))
