"""Quiescence: its conditions, wake-ups, and the time to a new leader of a quiesced Raft group.

The transcripts `quiescence`, `wake_healthy_leader` and `late_quiescence` show the plain course."""

from random import Random

import pytest

from jepsen.simulation.memory_log import MemoryLog
from raftlog.raft.core import RaftCore
from raftlog.raft.messages import (
    Heartbeat,
    HeartbeatResponse,
    PreVoteRequest,
    PreVoteResponse,
    ReadIndexRequest,
    VoteRequest,
    Wake,
    WakeResponse,
)
from raftlog.raft.ready import HardState, RefusalReason, RefusedProposal, Restart, Role
from raftlog.raft.settings import RaftSettings
from raftlog.types import Index, NodeId, Term
from tests.raft.cluster import Cluster, configuration, replica_id

_ONE, _TWO, _THREE = (replica_id(number) for number in (1, 2, 3))


def _quiesced_cluster(voters: int = 3, learners: tuple[int, ...] = (), seed: int = 0) -> Cluster:
    """Return a quiesced Raft group with node 1 as its leader."""
    cluster = Cluster(range(1, voters + 1), learners, settings=RaftSettings(quiesce_after_ticks=4), seed=seed)
    cluster.set_heartbeats(alive=True)
    cluster.elect(1)
    _quiesce(cluster)
    return cluster


def _quiesce(cluster: Cluster, ticks: int = 40) -> None:
    for _ in range(ticks):
        if all(node.core.is_quiesced for node in cluster.nodes.values()):
            return
        cluster.tick()
    raise AssertionError(f"awake after {ticks} ticks")


def _quiesced_nodes(cluster: Cluster) -> list[int]:
    return [me.node_id for me, node in cluster.nodes.items() if node.core.is_quiesced]


def test_a_quiesced_group_sends_nothing() -> None:
    cluster = _quiesced_cluster()
    for node in cluster.nodes.values():
        assert not any(node.core.tick() for _ in range(1000))
    assert cluster.network == []


@pytest.mark.parametrize("wakes_lost", [0, 1, 2])
def test_a_request_to_a_quiesced_follower_wakes_the_leader_without_an_election(wakes_lost: int) -> None:
    cluster = _quiesced_cluster()
    outcome = cluster.propose(2, "x")
    assert outcome == RefusedProposal(RefusalReason.NOT_LEADER, _ONE)
    for _ in range(wakes_lost):
        assert cluster.take_messages(Wake, to=1)
        cluster.tick(3, settles=False)
    assert not cluster.core(2).is_quiesced
    cluster.settle()
    assert cluster.core(2).leader == _ONE
    cluster.tick(40)
    assert [node.core.term for node in cluster.nodes.values()] == [1, 1, 1]
    assert _quiesced_nodes(cluster) == [1, 2, 3]


def test_a_wake_message_is_resent_until_it_is_answered() -> None:
    cluster = _quiesced_cluster()
    cluster.core(1).step_down("the disk stalls")
    cluster[1].handle_readys()
    for _ in range(3):
        cluster.tick(3, settles=False)
        assert len(cluster.take_messages(Wake, to=2)) == len(cluster.take_messages(Wake, to=3)) == 1
    cluster.core(1).step(WakeResponse(_TWO, _ONE, Term(1)))
    cluster.tick(3, settles=False)
    assert not cluster.take_messages(Wake, to=2)
    assert cluster.take_messages(Wake, to=3)
    cluster.core(1).step(Heartbeat(_TWO, _ONE, Term(2), 1, Index(1)))
    cluster.tick_one(1, 3)
    assert not cluster.take_messages(Wake), "the new leader's heartbeats wake quiesced replicas"
    cluster.tick_one(1, 10)
    cluster.core(1).step(VoteRequest(_THREE, _ONE, Term(3), 1, cluster.core(1).status().last))
    cluster.tick_one(1, 3)
    assert not cluster.take_messages(Wake), "that is over under any next leader"


def test_a_replica_active_since_the_last_quiescence_is_not_woken() -> None:
    cluster = _quiesced_cluster()
    cluster.propose(1, "x")
    cluster.settle()
    cluster.core(1).step_down("the disk stalls")
    cluster[1].handle_readys()
    cluster.tick_one(1, 3)
    assert not cluster.take_messages(Wake)


def test_a_quiesced_follower_asked_to_vote_waits_for_a_leader_whose_process_is_alive() -> None:
    cluster = _quiesced_cluster()
    last = cluster.core(3).status().last
    request = PreVoteRequest(_TWO, _THREE, Term(1), 1, Term(2), last)
    cluster.core(3).step(request)
    cluster[3].handle_readys()
    assert not cluster.core(3).is_quiesced
    assert cluster.take_messages(Wake, to=1)
    cluster.tick_one(3, 4)
    cluster.core(3).step(request)
    cluster[3].handle_readys()
    cluster.tick_one(3, 1)
    cluster.core(3).step(request)
    cluster[3].handle_readys()
    answers = [answer.is_granted for answer in cluster.take_messages(PreVoteResponse)]
    assert answers == [False, False, True]


def test_a_quiesced_follower_votes_at_once_when_its_leaders_process_is_dead() -> None:
    cluster = _quiesced_cluster()
    cluster.isolate(1)
    cluster.set_heartbeats(alive=False, nodes=[1], seen_by=[3])
    cluster.core(3).step(PreVoteRequest(_TWO, _THREE, Term(1), 1, Term(2), cluster.core(3).status().last))
    cluster[3].handle_readys()
    assert [answer.is_granted for answer in cluster.take_messages(PreVoteResponse)] == [True]


def test_the_election_timeout_restarts_when_the_leaders_process_returns() -> None:
    cluster = _quiesced_cluster()
    cluster.isolate(2)
    cluster.set_heartbeats(alive=False, nodes=[1], seen_by=[2])
    cluster.tick_one(2, 9)
    cluster.isolate()
    cluster.set_heartbeats(alive=True, nodes=[1], seen_by=[2])
    assert cluster.take_messages(Wake, to=1)
    cluster.tick_one(2, 9)
    assert cluster.core(2).role is Role.FOLLOWER


def test_a_follower_with_a_pending_read_quiesces_only_after_its_answer_or_timeout() -> None:
    cluster = _quiesced_cluster()
    assert cluster.core(2).read_index("r") is None
    cluster[2].handle_readys()
    assert cluster.take_messages(ReadIndexRequest)
    for _ in range(100):
        cluster.tick()
        if cluster[2].reads_failed:
            break
        assert not cluster.core(2).is_quiesced
    assert cluster[2].reads_failed == ["r"]
    _quiesce(cluster)


def test_a_late_quiesce_message_or_heartbeat_has_no_effect() -> None:
    cluster = Cluster([1, 2, 3], settings=RaftSettings(quiesce_after_ticks=4))
    cluster.set_heartbeats(alive=True)
    cluster.elect(1)
    heard: list[Heartbeat] = []
    while not cluster.core(2).is_quiesced:
        cluster.tick(settles=False)
        heard += [message for message in cluster.network if isinstance(message, Heartbeat) and message.to == _TWO]
        cluster.settle()
    *_, ask, quiesce = [message for message in heard if message.sequence]
    assert quiesce.must_quiesce
    assert not ask.must_quiesce
    for late in (ask, ask._replace(sequence=0, quiesce_at=None), quiesce):
        cluster.core(2).step(late)
        assert cluster.core(2).is_quiesced
    cluster.core(1).read_index("r")
    cluster[1].handle_readys()
    cluster.settle()
    assert not cluster.core(2).is_quiesced
    cluster.core(2).step(quiesce)
    cluster[2].handle_readys()
    assert not cluster.core(2).is_quiesced
    (answer,) = cluster.take_messages(HeartbeatResponse)
    assert not answer.may_quiesce


def test_quiescence_needs_the_leaders_last_entry_durable_and_committed() -> None:
    cluster = _quiesced_cluster()
    cluster.core(1).read_index("r")
    cluster[1].handle_readys()
    cluster.settle()
    last = cluster.core(2).status().last
    for at in (last._replace(index=Index(last.index + 1)), last._replace(term=Term(0))):
        quiesce = Heartbeat(_ONE, _TWO, Term(1), 10**6, last.index, at, True)
        cluster.core(2).step(quiesce)
        assert not cluster.core(2).is_quiesced
    cluster.set_heartbeats(alive=False, nodes=[1], seen_by=[2])
    cluster.core(2).step(Heartbeat(_ONE, _TWO, Term(1), 10**6, last.index, last, True))
    assert not cluster.core(2).is_quiesced, "the process that would keep it quiesced is not there"


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_returning_learner_wakes_its_leader(is_behind: bool) -> None:
    cluster = _quiesced_cluster(3, (4,))
    cluster.isolate(4)
    cluster.set_heartbeats(alive=False, nodes=[4])
    cluster.set_heartbeats(alive=False, seen_by=[4])
    if is_behind:
        cluster.propose(1, "x")
    cluster.tick(60)
    assert _quiesced_nodes(cluster) == [1, 2, 3], "no replica waits for a stopped learner"
    cluster.isolate()
    cluster.set_heartbeats(alive=True, seen_by=[4])
    cluster.set_heartbeats(alive=True, nodes=[4])
    assert _quiesced_nodes(cluster) == [2, 3]
    _quiesce(cluster)
    assert cluster.data(4) == (["x"] if is_behind else [])


def test_a_learner_without_a_replica_keeps_the_group_awake() -> None:
    """Its process is up, so there is no later return that would wake the leader."""
    cluster = Cluster([1, 2, 3], (4,), settings=RaftSettings(quiesce_after_ticks=4))
    cluster.isolate(4)
    cluster.set_heartbeats(alive=True)
    cluster.elect(1)
    cluster.propose(1, "x")
    cluster.tick(100)
    assert not cluster.core(1).is_quiesced
    cluster.isolate()
    _quiesce(cluster, 100)
    assert cluster.data(4) == ["x"]


def test_a_stopped_voter_keeps_the_group_awake() -> None:
    cluster = _quiesced_cluster()
    cluster.isolate(3)
    cluster.set_heartbeats(alive=False, nodes=[3], seen_by=[1, 2])
    assert not cluster.core(1).is_quiesced
    cluster.tick(100)
    assert _quiesced_nodes(cluster) == [3]
    assert cluster.core(1).role is Role.LEADER


def test_a_woken_leader_has_a_whole_period_for_answers_of_a_quorum() -> None:
    """The time without answers while the leader was quiesced must not count against it."""
    cluster = _quiesced_cluster()
    for _ in range(1000):
        cluster.core(1).tick()
    cluster.core(1).read_index("r")
    cluster[1].handle_readys()
    cluster.network.clear()
    cluster.tick_one(1, 9)
    assert cluster.core(1).role is Role.LEADER
    cluster.network.clear()
    cluster.tick_one(1, 20)
    assert cluster.core(1).role is Role.FOLLOWER


def test_a_group_of_one_quiesces_too() -> None:
    cluster = Cluster([1], settings=RaftSettings(quiesce_after_ticks=4))
    cluster.elect(1)
    _quiesce(cluster)
    cluster.propose(1, "x")
    cluster.settle()
    assert cluster.data(1) == ["x"]
    _quiesce(cluster)


def test_a_leader_without_heartbeats_of_a_voters_process_stays_awake() -> None:
    """No failure detector would report a crash of the voter; the voter still receives the leader's heartbeats."""
    cluster = _quiesced_cluster()
    cluster.set_heartbeats(alive=False, nodes=[3], seen_by=[1])
    cluster.tick(100)
    assert not cluster.core(1).is_quiesced


def test_a_quiesced_leader_is_woken_by_any_active_replica() -> None:
    for message in (
        HeartbeatResponse(_TWO, _ONE, Term(1), 1, Index(1), Index(1)),
        ReadIndexRequest(_TWO, _ONE, Term(1), 1),
    ):
        cluster = _quiesced_cluster()
        cluster.core(1).step(message._replace(is_quiesced=True) if isinstance(message, HeartbeatResponse) else message)
        assert cluster.core(1).is_quiesced == isinstance(message, HeartbeatResponse)
        cluster.core(1).step(message)
        assert not cluster.core(1).is_quiesced
        cluster[1].handle_readys()
        assert len(cluster.take_messages(Heartbeat, to=3)) >= 1


def test_a_late_answer_from_before_quiescence_does_not_end_it() -> None:
    cluster = Cluster([1, 2, 3], settings=RaftSettings(quiesce_after_ticks=4))
    cluster.set_heartbeats(alive=True)
    cluster.elect(1)
    for _ in range(40):
        cluster.settle()
        cluster.tick(settles=False)
        if any(isinstance(message, Heartbeat) and message.must_quiesce for message in cluster.network):
            break
    cluster.core(1).step(HeartbeatResponse(_TWO, _ONE, Term(1), 1, Index(1), Index(1)))
    cluster.settle()
    assert _quiesced_nodes(cluster) == [1, 2, 3]


def test_a_group_with_occasional_writes_stays_awake() -> None:
    cluster = _quiesced_cluster()
    for _ in range(20):
        cluster.propose(1, "x")
        cluster.tick(3)
        assert not cluster.core(1).is_quiesced
    _quiesce(cluster)


def test_a_leader_that_has_not_applied_everything_stays_awake() -> None:
    log = MemoryLog()
    restart = Restart(HardState(Term(0), None), (configuration([1]),))
    core = RaftCore(_ONE, RaftSettings(quiesce_after_ticks=2), Random(0), log, restart)
    core.campaign()
    for _ in range(40):
        ready = core.ready()
        if ready is not None:
            log.append(ready.entries)
            core.advance(durable=ready.number)
        core.tick()
    assert core.committed_index == 1
    assert not core.is_quiesced
    core.advance(applied=Index(1))
    for _ in range(4):
        core.tick()
    assert core.is_quiesced


@pytest.mark.parametrize("seed", range(60))
def test_a_quiesced_group_elects_within_its_bound(seed: int) -> None:
    """The leader's process stops; others detect it within six ticks of each other; a fifth of the messages is lost.

    The bound: four times the longest election timeout (two without loss, see `bench`), after the last has noticed.
    """
    random = Random(seed)
    cluster = _quiesced_cluster(random.choice([3, 5]), seed=seed)
    cluster[1].crash()
    notices = {number: random.randint(0, 6) for number in range(2, len(cluster.nodes) + 1)}
    cluster.cut = lambda message: random.random() < 0.2
    for tick in range(7 + 4 * 20):
        for number, at in notices.items():
            if at == tick:
                cluster.core(number).note_process(NodeId(1), False)
                cluster[number].handle_readys()
        cluster.tick()
        leader = cluster.leader()
        if leader and leader.core.has_own_term_commit:
            return
    raise AssertionError(cluster.events[-10:])
