"""Bugs of gossip, moves, hand-overs and removal, in clusters with brokers that join and leave."""

from collections.abc import Iterator, Sequence

from jepsen.planted.membership_bugs import begin_two_changes
from jepsen.planted.patch import replace_method
from raftlog.membership.member import MemberState
from raftlog.membership.swim import MemberChange
from raftlog.partitions.gossip.service import Gossip
from raftlog.partitions.placement.assignments.assignments import Assignments, _MissingReplica
from raftlog.partitions.placement.moves.moves import Moves
from raftlog.partitions.placement.moves.plan import next_change
from raftlog.raft import Configuration, ConfigurationChange, ReplicaId, Role, election, leader
from raftlog.raft.core import RaftCore
from raftlog.raft.follower import Follower
from raftlog.raft.leader import Leader
from raftlog.raft.messages import PreVoteRequest, TimeoutNow, VoteRequest
from raftlog.raft.progress import FollowerProgress
from raftlog.raft.ready import RefusalReason
from raftlog.raft.replica import RaftReplica
from raftlog.raft.role import RoleChange
from raftlog.raft.transfer import Transfer
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Index


def edit_voters_by_gossip() -> None:
    """Plant a bug: when gossip declares a member dead, leaders of Raft groups remove the member's votes."""
    changed = Gossip._on_change

    def drop_dead_members(self: Gossip, change: MemberChange) -> None:
        """Handle the change as usual; if the member died, remove its vote in all groups that this node leads."""
        changed(self, change)
        if change.after is not MemberState.DEAD or change.before is MemberState.DEAD:
            return
        for group in self._node.driver.groups.values():
            members = group.core.configuration
            voters = tuple(voter for voter in members.voters if voter.node_id != change.node_id)
            if group.core.role is Role.LEADER and voters and voters != members.voters:
                _change(group, ConfigurationChange(voters, members.learners, members.index))

    replace_method(Gossip, "_on_change", drop_dead_members)


def begin_second_change() -> None:
    """Plant a bug: a leader begins a configuration change of a Raft group while another one is pending."""
    begin_two_changes()

    def begin_next_change(self: Moves, group: PartitionReplica) -> bool:
        """Start the next change towards the assigned replicas, even if one is pending; return whether it started."""
        core, wanted = group.core, self._assigned_replicas(group)
        before = core.configuration
        if wanted is None or not core.has_own_term_commit:
            return False
        change = next_change(
            Configuration(before.index, before.voters, before.learners),
            wanted,
            own_id=self._node.identity.replica,
            reachable=self._reachable(group, wanted),
            near=self._caught_up_members(group),
        )
        if change is not None:
            _change(group, change)
        return change is not None

    replace_method(Moves, "_step", begin_next_change)


def leave_joint_on_fail_over() -> None:
    """Plant a bug: a new leader leaves an inherited joint configuration at once, committed or not."""
    leave_if_committed = Leader._leave_joint_if_committed

    def leave_inherited(self: Leader) -> bool:
        """Leave a joint configuration of an earlier leader at once, a later one as usual; return whether it left."""
        replica = self._replica
        current = replica.configuration
        if not current.is_joint or current.index > self.first_own_index:
            return leave_if_committed(self)
        self._append_configuration(current.leave_joint(Index(replica.log.last_index + 1)))
        return True

    replace_method(Leader, "_leave_joint_if_committed", leave_inherited)


def transfer_to_just_promoted() -> None:
    """Plant a bug: a learner gets its vote and then leadership, without a check that its log is caught up."""
    decide_vote, leave_if_committed = election.decide_vote, Leader._leave_joint_if_committed

    def all_members(self: Moves, group: PartitionReplica) -> Sequence[ReplicaId]:
        """Return all members of the group as caught up."""
        return group.core.configuration.all_members()

    def leave_and_hand_over(self: Leader) -> bool:
        """Leave the joint configuration and transfer leadership to the first new voter; return whether it was left."""
        members = self._replica.configuration
        new = [voter for voter in members.voters if members.is_joint and voter not in members.outgoing]
        has_left = leave_if_committed(self)
        if has_left and new:
            self.transfer_leadership(new[0])
        return has_left

    def refuse_only_non_voter(
        replica: RaftReplica, target: ReplicaId, progress: FollowerProgress | None
    ) -> RefusalReason | None:
        """Refuse a transfer only to a replica that is no voter; its log is not checked."""
        return None if target in replica.configuration.voters else RefusalReason.NO_SUCH_VOTER

    def request_at_once(self: Transfer, replica: RaftReplica, progress: dict[ReplicaId, FollowerProgress]) -> bool:
        """Request the target's campaign, however far its log is; return whether there is a target."""
        if self.target is not None:
            replica.send(TimeoutNow(replica.me, self.target, replica.term))
        return self.target is not None

    def campaign_on_request(self: Follower, message: TimeoutNow) -> RoleChange:
        """Campaign at the leader's request without checking the replica's log."""
        return RoleChange(Role.CANDIDATE, "the leader handed over", is_transfer=True)

    def accept_transfer_claim(replica: RaftReplica, request: VoteRequest) -> bool:
        """Grant a vote of a transfer without comparing logs; decide other votes as usual."""
        if not request.is_transfer or replica.vote not in (None, request.sender):
            return decide_vote(replica, request)
        replica.set_hard_state(replica.term, request.sender)
        return True

    def is_eligible(replica: RaftReplica, request: PreVoteRequest | VoteRequest) -> bool:
        """Return true for every candidate."""
        return True

    replace_method(Moves, "_caught_up_members", all_members)
    replace_method(Leader, "_leave_joint_if_committed", leave_and_hand_over)
    replace_method(leader, "transfer_refusal", refuse_only_non_voter)
    replace_method(Transfer, "request_campaign_if_caught_up", request_at_once)
    replace_method(Follower, "_HANDLERS", Follower._HANDLERS | {TimeoutNow: campaign_on_request})
    replace_method(election, "decide_vote", accept_transfer_claim)
    replace_method(election, "is_eligible", is_eligible)


def accept_removed_candidates() -> None:
    """Plant a bug: replicas campaign without a pre-vote, and adopt the terms of removed members' campaigns."""
    become, vote_request = RaftCore._become, RaftCore._step_vote_request

    def become_at_once(self: RaftCore, wanted: RoleChange) -> None:
        """Become a candidate at once in place of a pre-candidate."""
        become(self, wanted._replace(role=Role.CANDIDATE) if wanted.role is Role.PRE_CANDIDATE else wanted)

    def accept_any_vote_request(self: RaftCore, request: PreVoteRequest | VoteRequest) -> None:
        """Adopt the later term of a candidate that is no voter, then handle its request as usual."""
        if request.term > self.term and not self.configuration.has_voter(request.sender):
            self._adopt_term(request.term, None)
        vote_request(self, request)

    replace_method(RaftCore, "_become", become_at_once)
    replace_method(RaftCore, "_step_vote_request", accept_any_vote_request)


def skip_moved_first_replicas() -> None:
    """Plant a bug: a first replica that is no longer assigned to its disk is not created."""
    missing = Assignments._missing

    def only_assigned(self: Assignments) -> Iterator[_MissingReplica]:
        """Yield the missing replicas that are assigned to this disk now."""
        for each in missing(self):
            if self._node.identity.replica in self._metadata.state.replicas_of(each.topic.row)[each.number]:
                yield each

    replace_method(Assignments, "_missing", only_assigned)


def _change(group: PartitionReplica, change: ConfigurationChange) -> None:
    """Start a configuration change and discard its result."""
    group.change_members(change).add_done_callback(lambda done: done.cancelled() or done.exception())
