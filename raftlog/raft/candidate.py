"""A candidate: requests pre-votes first, which change no state, then votes.

A pre-candidate is still in its old term, so a member that cannot win never raises the term (thesis 9.6). A candidate
counts its own vote like every other one: when it is durable. After a timeout both phases begin again with pre-votes."""

from collections.abc import Callable
from typing import Any, ClassVar

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.messages import Message, PreVoteRequest, PreVoteResponse, VoteRequest, VoteResponse
from raftlog.raft.quorum import VoteOutcome, vote_outcome
from raftlog.raft.ready import Role
from raftlog.raft.replica import RaftReplica
from raftlog.raft.role import RoleChange
from raftlog.types import Term


class Candidate:
    """Role of a replica in one phase of its campaign: it requests pre-votes, or votes."""

    __slots__ = ("_is_counted", "_replica", "_sequence", "leader", "role", "votes")

    def __init__(self, replica: RaftReplica, role: Role, *, is_transfer: bool = False) -> None:
        """Begin a campaign or pre-vote campaign, by `role`, and send requests to all voters.

        `is_transfer` is whether the leader asked for it."""
        assert role in (Role.PRE_CANDIDATE, Role.CANDIDATE), f"no campaign as {role}"
        self._replica = replica
        self.role: Role = role
        self.leader: ReplicaId | None = None
        self._sequence = replica.next_sequence()
        self.votes: dict[ReplicaId, bool] = {}
        """Answers by voter: a second answer of the same voter changes nothing."""
        self._is_counted = False
        replica.next_tick = replica.ticks + replica.draw_election_ticks()
        if role is Role.PRE_CANDIDATE:
            self._record_vote(replica.me, True)
        for voter in replica.configuration.all_voters():
            if voter != replica.me:
                replica.send(self._make_request(voter, is_transfer))

    def has_leader_contact(self) -> bool:
        """Return false: a candidate has no leader."""
        return False

    def step(self, message: Message) -> RoleChange | None:
        """Process the answer of a voter; ignore messages of other types."""
        handle = self._HANDLERS.get(type(message))
        return handle(self, message) if handle else None

    def handle_pre_vote(self, message: PreVoteResponse) -> RoleChange | None:
        """Record the answer to a pre-vote request of this campaign."""
        if self.role is Role.PRE_CANDIDATE and message.campaign_term == self._replica.term + 1:
            self._record_answer_of_phase(message)
        return None

    def handle_vote(self, message: VoteResponse) -> RoleChange | None:
        """Record the answer to a vote request of this campaign."""
        if self.role is Role.CANDIDATE:
            self._record_answer_of_phase(message)
        return None

    def tick(self) -> RoleChange | None:
        """Return the change of role at the election timeout.

        The replica requests pre-votes again, or becomes a follower if it may not campaign any more."""
        if not self._replica.may_campaign():
            return RoleChange(Role.FOLLOWER, "may not campaign any more")
        return RoleChange(Role.PRE_CANDIDATE, "the election timed out")

    def prepare(self) -> RoleChange | None:
        """Count the votes; return the change of role that they decide, or None."""
        replica = self._replica
        if self.role is Role.CANDIDATE and replica.me not in self.votes and replica.is_hard_state_durable:
            self._record_vote(replica.me, True)
        if self._is_counted:
            return None
        self._is_counted = True
        outcome = vote_outcome(replica.configuration, self.votes)
        if outcome is VoteOutcome.LOST:
            return RoleChange(Role.FOLLOWER, "a quorum refused")
        if outcome is VoteOutcome.PENDING:
            return None
        if self.role is Role.PRE_CANDIDATE:
            return RoleChange(Role.CANDIDATE, "a quorum would vote for it")
        return RoleChange(Role.LEADER, "a quorum voted for it")

    def wake(self) -> None:
        """Do nothing, because candidates are never quiesced."""

    def leave(self) -> None:
        """End the role; a candidate has no requests to fail."""

    def _make_request(self, voter: ReplicaId, is_transfer: bool) -> PreVoteRequest | VoteRequest:
        """Return the request for a pre-vote or a vote, according to the phase."""
        replica = self._replica
        me, term, last = replica.me, replica.term, replica.log.last_id
        if self.role is Role.PRE_CANDIDATE:
            return PreVoteRequest(me, voter, term, self._sequence, Term(term + 1), last)
        return VoteRequest(me, voter, term, self._sequence, last, is_transfer)

    def _record_answer_of_phase(self, message: PreVoteResponse | VoteResponse) -> None:
        """Record an answer to a request of this phase; ignore answers to other requests."""
        if message.sequence == self._sequence:
            self._record_vote(message.sender, message.is_granted)

    def _record_vote(self, voter: ReplicaId, is_granted: bool) -> None:
        """Record the first answer of a voter; later ones change nothing."""
        if voter not in self.votes:
            self.votes[voter] = is_granted
            self._is_counted = False

    _HANDLERS: ClassVar[dict[type, Callable[["Candidate", Any], RoleChange | None]]] = {
        PreVoteResponse: handle_pre_vote,
        VoteResponse: handle_vote,
    }
