"""Check of incoming messages: those that a replica accepts, and its answers to stale ones."""

from raftlog.raft.entry import TERM_MAX, TERM_STEP_MAX, TERM_TAKEN_MAX
from raftlog.raft.message_errors import TermRefused
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
from raftlog.raft.replica import RaftReplica
from raftlog.types import Index, Term


def is_acceptable(replica: RaftReplica, message: Message) -> bool:
    """Return whether a message is well formed, addressed to this replica, and of an acceptable term.

    Messages of the types in `FROM_MEMBER` may bring a later term only from members of the configuration: a removed
    replica may have raised its term, and must not depose the leader. Raises `TermRefused`."""
    if message.to != replica.me or message.sender == replica.me or message.term < 0:
        return False
    if message.term > TERM_TAKEN_MAX:
        _check_term(replica, message, message.term)
    if isinstance(message, AppendRequest):
        return is_contiguous(message)
    if isinstance(message, PreVoteRequest):
        if message.campaign_term > TERM_TAKEN_MAX:
            _check_term(replica, message, message.campaign_term)
        return message.term < message.campaign_term
    if message.term > replica.term and type(message) in FROM_MEMBER:
        return replica.configuration.has_member(message.sender)
    return True


def _check_term(replica: RaftReplica, message: Message, term: Term) -> None:
    """Raise `TermRefused` if `term` is above `TERM_MAX`, or more than `TERM_STEP_MAX` above this replica's term."""
    if term > min(replica.term + TERM_STEP_MAX, TERM_MAX):
        raise TermRefused(
            f"term {term} is too near to the last one, {TERM_MAX}; this replica is in term {replica.term}", message
        )


def is_contiguous(message: AppendRequest) -> bool:
    """Return whether the entries follow their predecessor without a gap and have no term above the message's."""
    entries = message.entries
    if not entries:
        return True
    first, last = entries[0], entries[-1]
    return (
        first.index == message.previous.index + 1
        and last.index == message.previous.index + len(entries)
        and message.previous.term <= first.term <= last.term <= message.term
    )


def answer_stale(replica: RaftReplica, message: Message) -> None:
    """Answer a leader of an older term with the current term; other stale messages get no answer."""
    me, to, term, none = replica.me, message.sender, replica.term, Index(0)
    if isinstance(message, (AppendRequest, InstallOffer)):
        replica.send(AppendResponse(me, to, term, message.sequence, False, none, none, none))
    elif isinstance(message, Heartbeat):
        replica.send(HeartbeatResponse(me, to, term, message.sequence, none, none))
