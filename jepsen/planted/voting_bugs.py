"""Bugs in elections."""

from jepsen.planted.patch import replace_method
from raftlog.raft import election
from raftlog.raft.core import RaftCore
from raftlog.raft.entry import is_at_least_as_up_to_date
from raftlog.raft.messages import PreVoteRequest, VoteRequest, Wake, WakeResponse
from raftlog.raft.ready import Ready, Role
from raftlog.raft.ready_builder import ReadyBuilder
from raftlog.raft.replica import RaftReplica
from raftlog.raft.role import RoleBehaviour, RoleChange
from raftlog.types import NodeId


def skip_vote_sync() -> None:
    """Plant a bug: a replica sends its votes and terms before they are durable."""
    take = ReadyBuilder.take

    def take_and_send(self: ReadyBuilder, role: RoleBehaviour, why: str) -> Ready:
        """Return the ready with all messages to send now, none after the sync."""
        ready = take(self, role, why)
        return ready._replace(messages_now=ready.messages_now + ready.messages_once_durable, messages_once_durable=())

    replace_method(ReadyBuilder, "take", take_and_send)


def vote_twice() -> None:
    """Plant a bug: a replica grants a vote without checking for an earlier vote in the same term."""

    def decide_vote(replica: RaftReplica, request: VoteRequest) -> bool:
        """Grant the vote to any candidate whose log is up to date; return whether it was granted."""
        if not is_at_least_as_up_to_date(request.last, replica.vote_floor):
            return False
        replica.set_hard_state(replica.term, request.sender)
        return True

    replace_method(election, "decide_vote", decide_vote)


def skip_pre_vote() -> None:
    """Plant a bug: a replica campaigns in the next term without a pre-vote when the leader is silent."""
    become = RaftCore._become

    def become_at_once(self: RaftCore, wanted: RoleChange) -> None:
        """Become a candidate at once in place of a pre-candidate."""
        become(self, wanted._replace(role=Role.CANDIDATE) if wanted.role is Role.PRE_CANDIDATE else wanted)

    replace_method(RaftCore, "_become", become_at_once)


def refuse_pre_vote_quiesced() -> None:
    """Plant a bug: a quiesced replica refuses pre-votes, and only messages of the leader wake it.

    Refusing pre-votes alone would have no effect: a candidate wakes the other replicas before it campaigns, and a
    process that fails wakes its followers. So both wake-ups are switched off."""
    vote_request, step_wake = RaftCore._step_vote_request, RaftCore._step_wake

    def refuse_quiesced(self: RaftCore, request: PreVoteRequest | VoteRequest) -> None:
        """Refuse a pre-vote in a quiesced replica; handle other requests as usual."""
        if self.is_quiesced and isinstance(request, PreVoteRequest):
            election.send_answer(self._replica, request, False)
        else:
            vote_request(self, request)

    def stay_quiesced(self: RaftCore, message: Wake | WakeResponse) -> None:
        """Ignore a wake-up request in a quiesced replica."""
        if not (self.is_quiesced and isinstance(message, Wake)):
            step_wake(self, message)

    def ignore_claim(self: RaftCore, node: NodeId, is_alive: bool) -> None:
        """Record whether a node's process is alive, without waking the replica."""
        self._replica.quiescence.note_process(node, is_alive)

    replace_method(RaftCore, "_step_vote_request", refuse_quiesced)
    replace_method(RaftCore, "_step_wake", stay_quiesced)
    replace_method(RaftCore, "note_process", ignore_claim)
