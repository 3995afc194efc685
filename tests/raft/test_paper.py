"""Claims of the Raft thesis (Ongaro, 2014), section by section; more are in the transcripts of `scenarios/`."""

from random import Random

import pytest

from jepsen.simulation.memory_log import MemoryLog
from raftlog.raft.configuration import ReplicaId
from raftlog.raft.core import RaftCore
from raftlog.raft.entry import EntryId
from raftlog.raft.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    PreVoteRequest,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from raftlog.raft.ready import Accepted, HardState, RefusalReason, RefusedProposal, Restart, Role
from raftlog.raft.settings import RaftSettings
from raftlog.types import Index, Term
from tests.raft.cluster import Cluster, configuration, replica_id

_ONE, _TWO, _THREE = (replica_id(number) for number in (1, 2, 3))


def _lone_core(me: ReplicaId, *, term: int = 0, vote: ReplicaId | None = None, seed: int = 0) -> RaftCore:
    """Return a core of a Raft group of three whose other replicas do not answer."""
    restart = Restart(HardState(Term(term), vote), (configuration([1, 2, 3]),))
    return RaftCore(me, RaftSettings(heartbeat_ticks=2), Random(seed), MemoryLog(), restart)


def test_3_3_a_message_of_a_later_term_makes_any_replica_a_follower() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    core = cluster.core(1)
    core.step(AppendRequest(_TWO, _ONE, Term(9), 1, EntryId(Index(0), Term(0)), (), Index(0)))
    assert (core.role, core.term, core.leader) == (Role.FOLLOWER, 9, _TWO)


def test_3_3_a_leader_of_an_earlier_term_receives_the_later_term() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster[2].core.step(Heartbeat(_THREE, _TWO, Term(5), 1, Index(0)))
    cluster[2].handle_readys()
    cluster.network.clear()
    cluster.core(2).step(Heartbeat(_ONE, _TWO, Term(1), 1, Index(0)))
    cluster[2].handle_readys()
    (answer,) = cluster.take_messages(HeartbeatResponse, to=1)
    assert answer.term == 5


def test_3_4_election_timeouts_are_drawn_between_one_and_two_times_the_least() -> None:
    drawn = set()
    for seed in range(200):
        core = _lone_core(_ONE, seed=seed)
        ticks = 0
        while core.role is Role.FOLLOWER:
            core.tick()
            ticks += 1
        drawn.add(ticks)
    assert drawn == set(range(10, 20))


def test_3_4_one_vote_per_term_first_come_first_served() -> None:
    core = _lone_core(_ONE, term=1)
    for candidate, is_expected in ((_TWO, True), (_THREE, False), (_TWO, True)):
        core.step(VoteRequest(candidate, _ONE, Term(2), 7, EntryId(Index(0), Term(0))))
        ready = core.ready()
        assert ready is not None
        answers = [*ready.messages_now, *ready.messages_once_durable]
        assert [answer.is_granted for answer in answers if isinstance(answer, VoteResponse)] == [is_expected]


def test_3_4_a_granted_vote_resets_the_election_timeout() -> None:
    follower, twin = _lone_core(_ONE, term=2), _lone_core(_ONE, term=2)
    while twin.role is Role.FOLLOWER:
        follower.step(VoteRequest(_TWO, _ONE, Term(2), 1, EntryId(Index(0), Term(0))))
        follower.tick()
        twin.tick()
    for _ in range(9):
        follower.tick()
        assert follower.role is Role.FOLLOWER


def test_3_4_a_split_vote_ends_with_new_timeouts() -> None:
    cluster = Cluster([1, 2, 3, 4])
    for number in (1, 2):
        cluster.core(number).campaign()
        cluster[number].handle_readys()
    for _ in range(200):
        leader = cluster.leader()
        if leader and leader.core.has_own_term_commit:
            return
        cluster.tick()
    raise AssertionError(cluster.events)


@pytest.mark.parametrize(
    ("mine", "theirs", "is_expected"),
    [
        ((3, 2), (3, 2), True),
        ((3, 2), (4, 2), True),
        ((3, 2), (1, 3), True),
        ((3, 2), (2, 2), False),
        ((3, 2), (9, 1), False),
    ],
)
def test_3_6_1_votes_go_to_logs_at_least_as_fresh(
    mine: tuple[int, int], theirs: tuple[int, int], is_expected: bool
) -> None:
    log = MemoryLog((), EntryId(Index(mine[0]), Term(mine[1])))
    restart = Restart(HardState(Term(5), None), (configuration([1, 2, 3]),))
    core = RaftCore(_ONE, RaftSettings(), Random(0), log, restart)
    core.step(VoteRequest(_TWO, _ONE, Term(6), 1, EntryId(Index(theirs[0]), Term(theirs[1]))))
    ready = core.ready()
    assert ready is not None
    (answer,) = ready.messages_once_durable
    assert isinstance(answer, VoteResponse)
    assert answer.is_granted == is_expected


def test_3_7_a_duplicated_message_changes_nothing() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.propose(1, "a", "b")
    (append,) = cluster.take_messages(AppendRequest, to=2)
    for _ in range(3):
        cluster.core(2).step(append)
        cluster[2].handle_readys()
    assert cluster[2].log.last_index == 3
    cluster.settle()
    assert cluster.data(2) == ["a", "b"]


def test_3_8_term_and_vote_are_persisted_before_any_message_has_them() -> None:
    core = _lone_core(_ONE)
    core.step(VoteRequest(_TWO, _ONE, Term(1), 1, EntryId(Index(0), Term(0))))
    ready = core.ready()
    assert ready is not None
    assert ready.hard_state == HardState(Term(1), _TWO)
    assert ready.must_sync
    assert ready.messages_now == ()
    assert [type(message) for message in ready.messages_once_durable] == [VoteResponse]
    # Asked again before the sync returned: nothing new to persist, but the answer waits all the same.
    core.step(VoteRequest(_TWO, _ONE, Term(1), 1, EntryId(Index(0), Term(0))))
    again = core.ready()
    assert again is not None
    assert again.messages_now == ()
    assert len(again.messages_once_durable) == 1
    core.advance(durable=again.number)
    core.step(VoteRequest(_TWO, _ONE, Term(1), 1, EntryId(Index(0), Term(0))))
    now = core.ready()
    assert now is not None
    assert len(now.messages_now) == 1


def test_3_8_a_restart_keeps_the_vote() -> None:
    core = _lone_core(_ONE, term=1, vote=_TWO)
    core.step(VoteRequest(_THREE, _ONE, Term(1), 1, EntryId(Index(0), Term(0))))
    ready = core.ready()
    assert ready is not None
    (answer,) = ready.messages_now
    assert isinstance(answer, VoteResponse)
    assert not answer.is_granted


def test_3_10_a_transfer_sends_timeout_now_once_the_target_is_caught_up() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.propose(1, "a")
    assert cluster.core(1).transfer_leadership(_TWO) is None
    cluster[1].handle_readys()
    assert not cluster.take_messages(TimeoutNow)
    cluster.settle()
    assert cluster.core(2).role is Role.LEADER
    assert cluster.data(2) == ["a"]
    assert cluster.events.count("2 pre-candidate of term 1: no leader was heard in time") == 0


def test_3_10_a_transfer_without_effect_is_aborted() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.core(1).transfer_leadership(_TWO)
    cluster[1].handle_readys()
    cluster[2].crash()
    for _ in range(10):
        outcome = cluster.propose(1, "x")
        assert isinstance(outcome, RefusedProposal)
        assert outcome.reason is RefusalReason.TRANSFERRING
        cluster.tick()
    assert isinstance(cluster.propose(1, "x"), Accepted)


def test_3_10_a_joint_configuration_is_left_only_after_the_transfer_was_aborted() -> None:
    """The entry that leaves the joint configuration would let the target lag again."""
    cluster = Cluster([1, 2, 3], [4], syncs_at_once=False)
    cluster.elect(1)
    cluster.tick(4)
    assert isinstance(cluster.change(1, [1, 2, 4]), Accepted)
    while cluster.network or cluster[2].held:
        while cluster.network:
            cluster.deliver()
        cluster[2].sync()
    assert cluster.core(1).transfer_leadership(_TWO) is None
    cluster[1].handle_readys()
    cluster[1].sync()
    joint = cluster.core(1).configuration
    assert joint.is_joint
    assert cluster.core(1).committed_index == joint.index
    cluster.cut = lambda message: isinstance(message, TimeoutNow)
    cluster.network = [message for message in cluster.network if not isinstance(message, TimeoutNow)]
    cluster.tick(9)
    assert cluster.core(1).configuration == joint
    cluster.tick_one(1)
    assert not cluster.core(1).configuration.is_joint
    assert cluster.core(1).role is Role.LEADER


def test_4_1_a_configuration_holds_from_its_append_on() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.change(1, [1, 2, 3], [4])
    assert cluster.core(1).configuration.learners == (replica_id(4),)
    assert cluster.core(1).committed_index < cluster.core(1).configuration.index
    cluster.deliver()
    assert cluster.core(2).configuration == cluster.core(1).configuration


def test_4_2_1_a_new_server_learns_before_it_votes() -> None:
    cluster = Cluster([1, 2])
    cluster.elect(1)
    cluster.propose(1, *range(100))
    cluster.settle()
    cluster.add(3)
    cluster.change(1, [1, 2], [3])
    cluster.settle()
    assert cluster.data(3) == list(range(100))
    cluster.tick(100)
    assert cluster.core(3).role is Role.FOLLOWER
    cluster.change(1, [1, 2, 3])
    cluster.settle()
    cluster[2].crash()
    assert isinstance(cluster.propose(1, "x"), Accepted)
    cluster.settle()
    assert cluster.data(3)[-1] == "x"


def test_4_2_2_a_leader_that_is_removed_does_not_count_itself() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.change(1, [2, 3])
    cluster.settle()
    assert cluster.core(1).role is Role.FOLLOWER
    leader = cluster.leader()
    assert leader is not None
    assert leader.me in (_TWO, _THREE)
    cluster.tick(100)
    assert not any(event.startswith("1 pre-candidate") for event in cluster.events[10:])


def test_4_2_3_a_replica_with_a_live_leader_neither_votes_nor_adopts_a_term() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    for kind in (PreVoteRequest, VoteRequest):
        last = EntryId(Index(99), Term(50))
        request = (
            PreVoteRequest(_THREE, _TWO, Term(50), 1, Term(51), last)
            if kind is PreVoteRequest
            else VoteRequest(_THREE, _TWO, Term(51), 1, last)
        )
        cluster.core(2).step(request)
        assert cluster.core(2).term == 1
        assert cluster.core(2).leader == _ONE


@pytest.mark.parametrize("missing", [(2, 3), (4, 5)])
def test_4_3_a_joint_configuration_commits_with_both_majorities(missing: tuple[int, int]) -> None:
    cluster = Cluster([1, 2, 3], [4, 5])
    cluster.elect(1)
    cluster.cut = lambda message: message.to.node_id in missing
    cluster.change(1, [1, 4, 5])
    cluster.settle()
    assert cluster.core(1).configuration.is_joint
    assert cluster.core(1).committed_index < cluster.core(1).configuration.index
    cluster.isolate()
    cluster.tick(6)
    assert not cluster.core(1).configuration.is_joint


@pytest.mark.parametrize("missing", [(1, 2), (1, 4)])
def test_4_3_a_joint_configuration_elects_with_both_majorities(missing: tuple[int, int]) -> None:
    """Halves {3, 4, 5} and {1, 2, 3}: without 1 and 2 the outgoing half lacks a majority, without 1 and 4 none does."""
    cluster = Cluster([1, 2, 3], [4, 5])
    cluster.elect(1)
    cluster.change(1, [3, 4, 5])
    while any(isinstance(message, AppendRequest) for message in cluster.network):
        cluster.deliver()
    cluster.network.clear()
    for number in missing:
        cluster[number].crash()
    cluster.tick(10, settles=False)
    cluster.network.clear()
    cluster.tick(100)
    assert (cluster.leader() is not None) == (missing == (1, 4))


def test_6_2_a_leader_without_a_quorum_steps_down_within_two_election_timeouts() -> None:
    """F21: the leader can send, and receives nothing."""
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.cut = lambda message: message.to == _ONE
    ticks = 0
    while cluster.core(1).role is Role.LEADER:
        cluster.tick()
        ticks += 1
    assert ticks <= 20


def test_6_4_a_read_needs_an_answer_to_a_heartbeat_sent_after_it() -> None:
    cluster = Cluster([1, 2, 3])
    leader = cluster.elect(1)
    cluster.tick_one(1, 3)
    before = cluster.take_messages(Heartbeat)
    assert before
    assert leader.core.read_index("r") is None
    leader.handle_readys()
    for heartbeat in before:
        cluster.core(heartbeat.to.node_id).step(heartbeat)
        cluster[heartbeat.to.node_id].handle_readys()
    for answer in cluster.take_messages(HeartbeatResponse):
        leader.core.step(answer)
    leader.core.step(HeartbeatResponse(_TWO, _ONE, Term(1), 10**6, Index(1), Index(1)))
    leader.handle_readys()
    assert leader.reads == [], "not by an answer to what was never asked either"
    cluster.settle()
    assert [read.request for read in leader.reads] == ["r"]


def test_6_4_reads_of_one_turn_share_one_round() -> None:
    cluster = Cluster([1, 2, 3])
    leader = cluster.elect(1)
    for request in range(100):
        leader.core.read_index(request)
    leader.handle_readys()
    assert len(cluster.network) == 1, "one follower makes a quorum with the leader"
    cluster.settle()
    assert [read.request for read in leader.reads] == list(range(100))


def test_6_4_reads_during_a_round_share_the_next_round() -> None:
    cluster = Cluster([1, 2, 3])
    leader = cluster.elect(1)
    for request in range(10):
        leader.core.read_index(request)
        leader.handle_readys()
    assert len(cluster.network) == 1
    cluster.deliver()
    assert leader.reads == []
    cluster.settle()
    assert [read.request for read in leader.reads] == list(range(10))


@pytest.mark.parametrize("members", [[1, 2, 3], [1, 2, 3, 4, 5]])
def test_6_4_without_answers_all_voters_are_asked_at_the_next_tick(members: list[int]) -> None:
    cluster = Cluster(members)
    leader = cluster.elect(1)
    leader.core.read_index("r")
    leader.handle_readys()
    silent = {message.to for message in cluster.network}
    assert len(silent) == len(members) // 2
    cluster.network.clear()
    cluster.cut = lambda message: message.to in silent
    assert leader.reads == []
    cluster.tick(1)
    cluster.settle()
    assert [read.request for read in leader.reads] == ["r"]


@pytest.mark.parametrize("missing", [(2, 3), (4, 5)])
def test_6_4_a_joint_configuration_reads_and_keeps_its_leader_with_both_majorities(missing: tuple[int, int]) -> None:
    cluster = Cluster([1, 2, 3], [4, 5])
    leader = cluster.elect(1)
    cluster.cut = lambda message: message.to.node_id in missing
    cluster.change(1, [1, 4, 5])
    leader.core.read_index("r")
    leader.handle_readys()
    cluster.settle()
    assert leader.reads == []
    cluster.tick(20)
    assert leader.core.role is not Role.LEADER
    assert leader.reads_failed == ["r"]


def test_6_4_a_read_begun_in_a_joint_configuration_needs_no_removed_voter() -> None:
    cluster = Cluster([1, 2])
    leader = cluster.elect(1)
    cluster.cut = lambda message: type(message) is HeartbeatResponse
    cluster.change(1, [1])
    leader.core.read_index("r")
    leader.handle_readys()
    assert leader.core.configuration.is_joint
    assert leader.reads == []
    cluster.settle()
    assert not leader.core.configuration.is_joint
    assert [read.request for read in leader.reads] == ["r"]


def test_6_4_a_read_at_a_follower_waits_until_its_index_is_applied() -> None:
    cluster = Cluster([1, 2, 3], syncs_at_once=False)
    cluster.elect(1)
    cluster.propose(1, "a")
    while cluster.network or cluster[1].held or cluster[3].held:
        while cluster.network:
            cluster.deliver()
        cluster[1].sync()
        cluster[3].sync()
    assert cluster.core(1).committed_index == 2
    cluster.core(2).read_index("r")
    cluster[2].handle_readys()
    while cluster.network:
        cluster.deliver()
    assert cluster[2].reads == [], "what would be read there is not durable, so not applied"
    cluster.settle()
    assert [tuple(read) for read in cluster[2].reads] == [("r", 2)]


def test_6_4_a_leader_alone_reads_at_once() -> None:
    cluster = Cluster([1])
    leader = cluster.elect(1)
    leader.core.read_index("r")
    leader.handle_readys()
    assert [read.index for read in leader.reads] == [1]


def test_9_6_a_pre_vote_changes_neither_term_nor_vote() -> None:
    core = _lone_core(_ONE, term=3)
    core.step(PreVoteRequest(_TWO, _ONE, Term(3), 1, Term(4), EntryId(Index(0), Term(0))))
    ready = core.ready()
    assert ready is not None
    assert ready.hard_state is None
    assert core.status().vote is None
    assert core.term == 3


def test_10_2_1_the_leader_replicates_during_its_write_and_counts_after_its_sync() -> None:
    cluster = Cluster([1, 2, 3], syncs_at_once=False)
    cluster.elect(1)
    cluster.propose(1, "a")
    assert cluster.take_messages(AppendRequest, to=3)
    (append,) = cluster.take_messages(AppendRequest, to=2)
    cluster.core(2).step(append)
    cluster[2].handle_readys()
    cluster[2].sync()
    for answer in cluster.take_messages(AppendResponse):
        cluster.core(1).step(answer)
    cluster[1].handle_readys()
    assert cluster.core(1).committed_index == 1
    cluster[1].sync()
    assert cluster.core(1).committed_index == 2


def test_10_2_1_a_quorum_of_followers_commits_before_the_leader_has_synced() -> None:
    cluster = Cluster([1, 2, 3], syncs_at_once=False)
    cluster.elect(1)
    cluster.propose(1, "a")
    while cluster.network:
        cluster.deliver()
        cluster[2].sync()
        cluster[3].sync()
    assert cluster.core(1).committed_index == 2
    assert cluster.core(1).status().durable_index == 1
    assert cluster.data(1) == [], "what is delivered rests on synced bytes"


def test_10_2_2_appends_are_pipelined_without_waiting_for_answers() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    for value in range(10):
        cluster.propose(1, value)
    assert len(cluster.take_messages(AppendRequest, to=2)) == 10
