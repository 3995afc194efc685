"""Lessons R26–R46 of the fault list: membership, reads, leadership, damage. `test_lessons` lists all lessons."""

from random import Random

from jepsen.simulation.memory_log import MemoryLog
from raftlog.raft.configuration import ConfigurationChange, ReplicaId
from raftlog.raft.core import RaftCore
from raftlog.raft.entry import Proposal
from raftlog.raft.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    PreVoteRequest,
    PreVoteResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from raftlog.raft.ready import Accepted, HardState, RefusalReason, Restart, Role
from raftlog.raft.settings import RaftSettings
from raftlog.types import Index, NodeId, Term
from tests.raft.cluster import Cluster, configuration, replica_id
from tests.raft.lone import FOUR, ONE, THREE, TWO, LoneFollower, entry, entry_id, refusal_reason

# membership


def test_r26_r31_one_change_at_a_time_and_compare_and_set() -> None:
    cluster = Cluster([1, 2, 3], [4])
    cluster.elect(1)
    before = cluster.core(1).configuration.index
    first = cluster.change(1, [1, 2, 3, 4])
    assert isinstance(first, Accepted)
    assert refusal_reason(cluster.change(1, [1, 2])) is RefusalReason.CHANGE_PENDING
    cluster.settle()
    assert refusal_reason(cluster.change(1, [1, 2], replaces=before)) is RefusalReason.STALE_CHANGE


def test_r27_no_change_before_an_entry_of_the_own_term_is_committed() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.core(1).campaign()
    cluster[1].handle_readys()
    while cluster.core(1).role is not Role.LEADER:
        cluster.deliver()
    assert refusal_reason(cluster.change(1, [1, 2])) is RefusalReason.NOT_COMMITTED_IN_TERM


def test_r28_the_exit_of_a_joint_configuration_is_proposed_once_and_by_any_leader() -> None:
    cluster = Cluster([1, 2, 3], [4])
    cluster.elect(1)
    cluster.change(1, [1, 2, 4])
    cluster.settle()
    exits = [entry for entry in cluster[1].log.entries_from_start() if entry.configuration]
    assert [entry.configuration.is_joint for entry in exits if entry.configuration] == [True, False]


def test_r29_a_new_leader_commits_the_joint_configuration_before_it_leaves_it() -> None:
    cluster = Cluster([1, 2, 3], [4, 5])
    cluster.elect(1)
    cluster.cut = lambda message: isinstance(message, AppendResponse) and message.sender in (TWO, THREE)
    cluster.change(1, [1, 4, 5], [2, 3])
    cluster.settle()
    cluster[1].crash()
    cluster.cut = lambda message: (
        isinstance(message, (AppendResponse, HeartbeatResponse))
        and message.sender
        in (
            TWO,
            THREE,
        )
    )
    cluster.tick(10, settles=False)
    cluster.network.clear()
    for _ in range(40):
        cluster.core(4).campaign()
        cluster[4].handle_readys()
        cluster.settle()
        cluster.tick(3)
    leader = cluster.leader()
    assert leader is not None
    assert leader.me in (FOUR, replica_id(5))
    assert leader.core.configuration.is_joint, "the old majority has not said that it holds the joint configuration"
    cluster.isolate()
    cluster.tick(6)
    assert not leader.core.configuration.is_joint


def test_r32_a_removed_member_neither_wins_nor_raises_the_term() -> None:
    cluster = Cluster([1, 2, 3, 4])
    cluster.elect(1)
    cluster.isolate(4)
    cluster.change(1, [1, 2, 3])
    cluster.settle()
    cluster.isolate()
    cluster.tick(100)
    assert cluster.core(1).role is Role.LEADER
    assert cluster.core(1).term == cluster.core(4).term == 1
    cluster.core(1).step(AppendResponse(FOUR, ONE, Term(50), 1, False, Index(0), Index(0), Index(0)))
    assert cluster.core(1).term == 1, "the answer of a stranger unseats no leader"
    assert cluster.core(1).messages_refused == 1


def test_r32_a_stranger_with_a_fresher_log_may_be_a_new_member() -> None:
    """New voters of a configuration that has not arrived yet must not be refused as strangers."""
    for last, is_expected in ((entry_id(2, 1), False), (entry_id(3, 1), True)):
        follower = LoneFollower(1, 1)
        follower.core.step(VoteRequest(FOUR, TWO, Term(2), 1, last))
        follower.handle_readys()
        (answer,) = follower.sent
        assert isinstance(answer, VoteResponse)
        assert answer.is_granted == is_expected


def test_r32_a_learner_votes_only_for_candidates_with_a_newer_configuration() -> None:
    """Otherwise a voter that promoted its only learner could never become leader after a restart."""
    cluster = Cluster([1], [2])
    cluster.elect(1)
    cluster.cut = lambda message: True
    cluster.change(1, [1, 2])
    assert cluster.core(1).configuration.is_joint
    cluster[1].crash()
    cluster.isolate()
    cluster[1].start()
    assert cluster.core(2).configuration.learners == (TWO,)
    cluster.elect(1)
    assert cluster.core(2).configuration.voters == (ONE, TWO)


def test_r32_a_learner_refuses_a_voter_without_a_newer_configuration() -> None:
    cluster = Cluster([1, 2], [3])
    cluster.elect(1)
    last = cluster.core(3).status().last
    for _ in range(30):
        cluster.core(3).tick()
    cluster.core(3).step(VoteRequest(TWO, THREE, Term(2), 1, last))
    cluster[3].handle_readys()
    assert [answer.is_granted for answer in cluster.take_messages(VoteResponse)] == [False]


def test_r33_a_message_for_another_disk_of_this_node_is_refused() -> None:
    follower = LoneFollower(1)
    wiped = ReplicaId(NodeId(2), FOUR.disk_uuid)
    follower.core.step(VoteRequest(ONE, wiped, Term(9), 1, entry_id(9, 9)))
    assert follower.core.ready() is None
    assert follower.core.messages_refused == 1


def test_r35_leadership_goes_only_to_voters_that_are_caught_up() -> None:
    cluster = Cluster([1, 2, 3], [4])
    cluster.elect(1)
    assert refusal_reason(cluster.core(1).transfer_leadership(FOUR)) is RefusalReason.NO_SUCH_VOTER
    assert refusal_reason(cluster.core(1).transfer_leadership(ONE)) is RefusalReason.NO_SUCH_VOTER
    cluster[3].crash()
    cluster.tick(12)
    cluster.tick(9)
    assert refusal_reason(cluster.core(1).transfer_leadership(THREE)) is RefusalReason.NOT_CAUGHT_UP
    cluster.isolate(4)
    cluster.change(1, [1, 2, 3, 4])
    cluster.settle()
    assert refusal_reason(cluster.core(1).transfer_leadership(FOUR)) is RefusalReason.NOT_CAUGHT_UP


def test_r35_a_learner_does_not_follow_a_request_to_campaign() -> None:
    cluster = Cluster([1, 2], [3])
    cluster.elect(1)
    cluster.core(3).step(TimeoutNow(ONE, THREE, Term(1)))
    assert cluster.core(3).role is Role.FOLLOWER


def test_r36_the_last_configuration_in_the_log_wins_at_a_restart() -> None:
    cluster = Cluster([1, 2, 3], [4])
    cluster.elect(1)
    cluster.change(1, [1, 2, 4])
    cluster.settle()
    for node in cluster.nodes.values():
        held = node.core.status().configuration
        node.crash()
        node.start()
        assert node.core.status().configuration == held


# reads and leadership


def test_r37_no_read_before_the_first_commit_of_the_term() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.core(1).campaign()
    cluster[1].handle_readys()
    while cluster.core(1).role is not Role.LEADER:
        cluster.deliver()
    assert cluster.core(1).read_index("r") is None
    cluster[1].handle_readys()
    cluster.take_messages(AppendRequest)
    cluster.tick(1)
    assert cluster[1].reads == []
    assert not cluster.core(1).has_own_term_commit
    cluster.tick(8)
    assert [read.request for read in cluster[1].reads] == ["r"]


def test_r38_a_leader_in_a_transfer_reads_only_with_a_quorum() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.core(1).transfer_leadership(TWO)
    cluster[1].handle_readys()
    cluster.core(1).read_index("r")
    cluster[1].handle_readys()
    assert cluster[1].reads == []
    cluster.settle()
    assert cluster.core(2).role is Role.LEADER
    reads = [read.request for read in cluster[1].reads] + cluster[1].reads_failed
    assert reads == ["r"]


def test_r40_unsynced_entries_are_neither_committed_nor_read() -> None:
    cluster = Cluster([1, 2, 3], syncs_at_once=False)
    cluster.elect(1)
    cluster.propose(1, "a")
    while cluster.network:
        cluster.deliver()
    assert cluster.core(1).committed_index == 1
    cluster.core(1).read_index("r")
    cluster[1].handle_readys()
    while cluster.network:
        cluster.deliver()
    assert [read.index for read in cluster[1].reads] == [1]
    cluster.settle()
    assert cluster.core(1).committed_index == 2


def test_r41_an_isolated_member_does_not_raise_its_term() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    for _ in range(5):
        cluster.isolate(3)
        cluster.tick(40)
        cluster.isolate()
        cluster.tick(3)
    assert cluster.core(1).role is Role.LEADER
    assert [node.core.term for node in cluster.nodes.values()] == [1, 1, 1]


def test_r46_a_quarantined_member_compares_votes_with_its_lost_entry() -> None:
    """The member grants no vote to a log without the lost entry, until its own durable log is as fresh again."""
    log = MemoryLog([entry(1, 1), entry(2, 1)])
    restart = Restart(
        HardState(Term(1), None),
        (configuration([1, 2, 3]),),
        Index(2),
        voting_position=entry_id(3, 1),
        is_quarantined=True,
    )
    core = RaftCore(TWO, RaftSettings(), Random(0), log, restart)
    assert not core.campaign()
    core.step(VoteRequest(THREE, TWO, Term(1), 1, entry_id(2, 1)))
    assert core.status().vote is None
    core.step(PreVoteRequest(THREE, TWO, Term(1), 1, Term(2), entry_id(2, 1)))
    core.step(PreVoteRequest(ONE, TWO, Term(1), 1, Term(2), entry_id(3, 1)))
    ready = core.ready()
    assert ready is not None
    answers = {message.to: message.is_granted for message in ready.messages_now if isinstance(message, PreVoteResponse)}
    assert answers == {THREE: False, ONE: True}


def test_r46_a_leader_that_detects_damage_steps_down() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.isolate(3)
    cluster.propose(1, "a")
    cluster.settle()
    cluster.core(1).quarantine()
    cluster[1].handle_readys()
    assert cluster.core(1).role is Role.FOLLOWER
    cluster.isolate()
    cluster.settle()
    leader = cluster.leader()
    assert leader is not None, "it asked another one to campaign, so no timeout has to pass"
    assert leader.me == TWO, "the highest"
    assert not cluster.core(1).campaign()
    cluster.core(1).lift_quarantine()
    cluster.tick(20)
    assert cluster.core(1).status().is_quarantined is False


def test_r46_of_several_lost_entries_the_freshest_counts() -> None:
    follower = LoneFollower(1, 1)
    for lost in (entry_id(2, 1), entry_id(5, 1), entry_id(3, 1)):
        follower.core.quarantine(lost)
    assert follower.core.voting_position == entry_id(5, 1)
    follower.core.lift_quarantine()
    assert not follower.core.campaign(), "the lost entry may be committed, and this log lacks it"
    follower.append(1, entry_id(2, 1), 1, 1)
    assert follower.core.voting_position == entry_id(5, 1)
    follower.append(1, entry_id(4, 1), 1)
    assert follower.core.voting_position is None
    assert follower.core.campaign()


def test_r46_the_voting_position_ends_with_durable_entries_only() -> None:
    cluster = Cluster([1, 2, 3], syncs_at_once=False)
    cluster.elect(1)
    cluster.core(2).quarantine(entry_id(3, 1))
    for payload, at in (("a", 2), ("b", 3)):
        cluster.propose(1, payload)
        (append,) = cluster.take_messages(AppendRequest, to=2)
        cluster.core(2).step(append)
        cluster[2].handle_readys()
        assert cluster[2].log.last_index == at
    cluster[2].sync(1)
    assert cluster.core(2).voting_position == entry_id(3, 1)
    cluster[2].sync()
    assert cluster.core(2).voting_position is None


def test_r34_a_replica_without_a_configuration_only_waits() -> None:
    restart = Restart(HardState(Term(0), None), ())
    core = RaftCore(FOUR, RaftSettings(quiesce_after_ticks=2), Random(0), MemoryLog(), restart)
    for _ in range(100):
        core.tick()
    core.note_process(NodeId(1), True)
    core.note_process(NodeId(1), False)
    core.step(TimeoutNow(ONE, FOUR, Term(3)))
    assert not core.campaign()
    assert not core.step_down("by order")
    assert refusal_reason(core.propose([Proposal("x", 1)])) is RefusalReason.NOT_LEADER
    assert (
        refusal_reason(core.propose_configuration(ConfigurationChange((FOUR,), (), Index(0))))
        is RefusalReason.NOT_LEADER
    )
    assert refusal_reason(core.transfer_leadership(ONE)) is RefusalReason.NOT_LEADER
    assert core.needs_install(entry_id(5, 1))
    assert (core.role, core.term, core.committed_index, core.is_quiesced) == (Role.FOLLOWER, 3, 0, False)
    assert core.configuration.all_members() == ()
    for _ in range(10):
        core.tick()
    core.step(VoteRequest(ONE, FOUR, Term(4), 1, entry_id(0, 0)))
    core.step(VoteRequest(TWO, FOUR, Term(4), 1, entry_id(1, 1)))
    ready = core.ready()
    assert ready is not None
    assert ready.hard_state == HardState(Term(4), TWO), "only who has a log may know that this is a voter"


def test_a_leader_outside_of_the_voters_leads_until_the_change_is_committed() -> None:
    """Thesis 4.2.2: it replicates, reads with a quorum of both halves, and steps down without one."""
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.cut = lambda message: isinstance(message, AppendResponse)
    cluster.change(1, [2, 3])
    cluster.settle()
    assert cluster.core(1).configuration.is_joint
    assert isinstance(cluster.propose(1, "x"), Accepted)
    assert cluster.core(1).read_index("r") is None
    cluster[1].handle_readys()
    cluster.settle()
    assert [read.request for read in cluster[1].reads] == ["r"]
    cluster.isolate(2)
    cluster.core(1).read_index("s")
    cluster[1].handle_readys()
    cluster.settle()
    assert len(cluster[1].reads) == 1, "of 2 and 3 only one has answered"
    cluster.tick(20)
    assert cluster.core(1).role is not Role.LEADER
    assert cluster[1].reads_failed == ["s"]


def test_a_forwarded_read_is_not_reported_as_our_own() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.core(2).read_index("r")
    cluster[2].handle_readys()
    cluster.deliver()
    cluster.core(1).step_down("stalled")
    cluster[1].handle_readys()
    assert cluster[1].reads_failed == []


def test_a_forwarded_read_fails_when_its_leader_was_replaced() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.core(2).read_index("r")
    cluster[2].handle_readys()
    cluster.core(2).step(Heartbeat(THREE, TWO, Term(2), 1, Index(1)))
    cluster[2].handle_readys()
    assert cluster[2].reads_failed == ["r"]
