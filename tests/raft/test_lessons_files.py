"""Lessons R20–R25 of the fault list: installed files, boundaries, restarts. `test_lessons` lists all lessons."""

from random import Random

from jepsen.simulation.memory_log import MemoryLog
from raftlog.raft.core import RaftCore
from raftlog.raft.entry import EntryId
from raftlog.raft.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    InstallOffer,
    InstallResponse,
    ReadIndexRequest,
    ReadIndexResponse,
)
from raftlog.raft.ready import HardState, Installed, Restart
from raftlog.raft.settings import RaftSettings
from raftlog.types import Index, Term
from tests.raft.cluster import Cluster, Node, configuration
from tests.raft.lone import ONE, THREE, TWO, LoneFollower, entry, entry_id, make_replicating_cluster, progress_of


def _cluster_with_lagging_follower() -> Cluster:
    cluster = make_replicating_cluster()
    cluster[3].crash()
    cluster.propose(1, *"defgh")
    cluster.settle()
    return cluster


def test_r20_files_replace_a_log_unless_it_has_the_boundary() -> None:
    cluster = _cluster_with_lagging_follower()
    cluster[1].trim(Index(7))
    cluster[3].start()
    cluster.tick(6)
    assert cluster[3].log.boundary == entry_id(7, 1)
    assert cluster.core(3).committed_index == 9
    offer = InstallOffer(ONE, THREE, Term(1), 10**6, entry_id(8, 1), Index(9))
    cluster.core(3).step(offer)
    ready = cluster.core(3).ready()
    assert ready is not None
    assert ready.install_offer == offer, "entries may be fetched, but no files: the boundary is in the log"
    assert not cluster.core(3).needs_install(entry_id(8, 1))


def test_r20_an_offer_within_the_log_is_answered_once_the_boundary_is_durable() -> None:
    cluster = Cluster([1, 2, 3], syncs_at_once=False)
    cluster.elect(1)
    cluster.propose(1, "a", "b")
    (append,) = cluster.take_messages(AppendRequest, to=2)
    cluster.core(2).step(append)
    cluster[2].handle_readys()
    for is_reached in (False, True):
        cluster.core(2).step(InstallOffer(ONE, TWO, Term(1), 10**6, entry_id(3, 1), Index(3)))
        cluster[2].handle_readys()
        assert [answer.is_reached for answer in cluster.take_messages(InstallResponse)] == [is_reached]
        cluster[2].sync()


def test_r21_the_boundary_keeps_its_term_and_a_trim_never_breaks_replication() -> None:
    cluster = make_replicating_cluster()
    cluster.propose(1, "d")
    cluster.network.clear()
    cluster[1].trim(Index(4))
    assert cluster[1].log.term_at(Index(4)) == 1
    cluster.tick(4)
    assert cluster.data(2) == ["a", "b", "c", "d"]
    assert cluster[2].log.boundary.index == 0


def test_r22_a_follower_behind_the_start_of_the_log_catches_up() -> None:
    cluster = _cluster_with_lagging_follower()
    cluster[1].trim(Index(9))
    cluster[2].trim(Index(5))
    cluster[3].start()
    cluster.tick(6)
    cluster.propose(1, "z")
    cluster.settle()
    assert cluster[3].log.last_index == 10
    assert progress_of(cluster, THREE) == ("replicate", 10, 11)


def test_r25_a_restart_can_resume_from_any_committed_index() -> None:
    cluster = make_replicating_cluster()
    log = cluster[2].log
    for applied in range(log.last_index + 1):
        restart = Restart(cluster[2].disk.hard_state, cluster[2].disk.configurations(), Index(4), Index(applied))
        core = RaftCore(TWO, RaftSettings(), Random(0), log, restart)
        ready = core.ready()
        assert ready is not None
        assert ready.apply == ((applied + 1, 4) if applied < 4 else None)


def _install(core: RaftCore, log: MemoryLog, boundary: EntryId, *terms: int, applied: int | None = None) -> None:
    """Replace the log by files that begin after `boundary`, with entries of these terms."""
    assert core.needs_install(boundary)
    while core.ready() is not None:
        pass
    log.replace(boundary, [entry(boundary.index + at, term) for at, term in enumerate(terms, 1)])
    end = Index(boundary.index + len(terms))
    core.install(Installed((configuration([1, 2, 3]),), end, boundary.index if applied is None else Index(applied)))


def test_r22_reads_that_wait_for_installed_entries_are_answered() -> None:
    follower = LoneFollower(1)
    follower.append(1, entry_id(1, 1))
    assert follower.core.read_index("r") is None
    follower.handle_readys()
    (asked,) = (said for said in follower.sent if isinstance(said, ReadIndexRequest))
    follower.core.step(ReadIndexResponse(ONE, TWO, Term(1), asked.sequence, Index(7)))
    follower.handle_readys()
    assert not any(ready.reads for ready in follower.readys)
    _install(follower.core, follower.log, entry_id(6, 1), 1, applied=7)
    follower.handle_readys()
    assert [read for ready in follower.readys for read in ready.reads] == [("r", 7)]


def test_r22_an_installed_log_takes_the_place_of_a_lost_entry() -> None:
    follower = LoneFollower(1)
    follower.core.quarantine(entry_id(2, 1))
    _install(follower.core, follower.log, entry_id(6, 1), 1)
    assert follower.core.voting_position is None
    follower.core.lift_quarantine()
    assert follower.core.campaign()


def test_r22_files_of_a_later_term_set_the_term_but_no_leader() -> None:
    """The source reached a later term during the fetch: the term is persisted, and the old leader is deposed."""
    follower = LoneFollower(1)
    follower.append(1, entry_id(1, 1))
    assert follower.core.leader == ONE
    _install(follower.core, follower.log, entry_id(6, 1), 3)
    assert (follower.core.term, follower.core.leader) == (3, None)
    follower.handle_readys()
    assert follower.readys[-1].hard_state == HardState(Term(3), None)
    follower.core.step(Heartbeat(THREE, TWO, Term(3), 1, Index(7)))
    assert follower.core.leader == THREE


def test_r22_installed_entries_are_committed_and_delivered_from_the_boundary() -> None:
    follower = LoneFollower(1, 1, 1, committed=1)
    follower.append(1, entry_id(3, 1), 1)
    _install(follower.core, follower.log, entry_id(6, 1), 1, 1)
    status = follower.core.status()
    assert (status.durable_index, status.committed_index, status.applied_index) == (8, 8, 6)
    assert follower.core.leader == ONE
    follower.handle_readys()
    assert [ready.apply for ready in follower.readys if ready.apply][-1] == (7, 8)
    assert not follower.core.needs_install(entry_id(8, 1))
    assert follower.core.needs_install(entry_id(9, 1))


def test_r22_a_state_machine_behind_the_boundary_gets_only_entries_in_the_log() -> None:
    follower = LoneFollower(1)
    _install(follower.core, follower.log, entry_id(6, 1), 1, 1, applied=0)
    ready = follower.core.ready()
    assert ready is not None
    assert ready.apply == (7, 8)


def _answer_heartbeat_as_three(cluster: Cluster, leader: Node, held: int = 0) -> None:
    """Acknowledge `held` entries in the name of node 3, as durable and in agreement."""
    cluster.tick_one(leader.me.node_id, 3)
    heartbeat = cluster.take_messages(Heartbeat, to=3)[-1]
    last = Index(held)
    leader.core.step(HeartbeatResponse(THREE, leader.me, leader.core.term, heartbeat.sequence, last, last))
    leader.handle_readys()


def _elect_next_leader(cluster: Cluster, leader: Node) -> Node:
    leader.core.step_down("told to")
    leader.handle_readys()
    cluster.tick(40)
    found = cluster.leader()
    assert found is not None
    return found


def test_r21_a_leader_sends_one_offer_per_round_trip() -> None:
    cluster = _cluster_with_lagging_follower()
    cluster[1].trim(Index(9))
    _answer_heartbeat_as_three(cluster, cluster[1])
    assert progress_of(cluster, THREE)[0] == "catch-up"
    assert len(cluster.take_messages(InstallOffer, to=3)) == 1
    cluster.propose(1, "x")
    cluster.propose(1, "y")
    assert not cluster.take_messages(InstallOffer, to=3)
    _answer_heartbeat_as_three(cluster, cluster[1])
    assert len(cluster.take_messages(InstallOffer, to=3)) == 1, "that one got lost"


def test_r21_after_an_install_appends_continue_at_the_end_of_the_files() -> None:
    cluster = _cluster_with_lagging_follower()
    cluster[1].trim(Index(6))
    _answer_heartbeat_as_three(cluster, cluster[1])
    (offer,) = cluster.take_messages(InstallOffer, to=3)
    cluster.core(1).step(InstallResponse(THREE, ONE, Term(1), offer.sequence, offer.boundary, True, Index(8)))
    cluster[1].handle_readys()
    assert [append.previous.index for append in cluster.take_messages(AppendRequest, to=3)] == [8]


def test_r21_an_append_of_the_first_entry_needs_the_boundary_before_it() -> None:
    for boundary, is_offered in ((5, True), (4, False)):
        cluster = _cluster_with_lagging_follower()
        cluster[1].trim(Index(boundary))
        _answer_heartbeat_as_three(cluster, cluster[1], 4)
        assert bool(cluster.take_messages(InstallOffer, to=3)) == is_offered
        assert bool(cluster.take_messages(AppendRequest, to=3)) != is_offered


def test_r21_a_late_acknowledgement_makes_an_install_unnecessary() -> None:
    cluster = _cluster_with_lagging_follower()
    cluster[1].trim(Index(9))
    _answer_heartbeat_as_three(cluster, cluster[1])
    (offer,) = cluster.take_messages(InstallOffer, to=3)
    end = Index(9)
    cluster.core(1).step(AppendResponse(THREE, ONE, Term(1), offer.sequence - 1, True, end, end, end))
    assert progress_of(cluster, THREE) == ("probe", 9, 10)


def test_r21_a_follower_that_diverged_before_the_boundary_is_offered_files() -> None:
    """Its log extends beyond the boundary, but with entries of an earlier term that do not agree."""
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster[3].crash()
    leader = _elect_next_leader(cluster, cluster[1])
    cluster.propose(leader.me.node_id, *"abcd")
    cluster.settle()
    for number in (1, 2):
        cluster[number].trim(Index(4))
    assert leader.log.boundary.term > 1
    leader = _elect_next_leader(cluster, leader)
    _answer_heartbeat_as_three(cluster, leader)
    (probe,) = cluster.take_messages(AppendRequest, to=3)
    nothing, hint = Index(0), entry_id(5, 1)
    leader.core.step(
        AppendResponse(THREE, leader.me, probe.term, probe.sequence, False, nothing, nothing, nothing, hint)
    )
    (state,) = (known.state for known in leader.core.status().followers if known.member == THREE)
    assert state == "catch-up"
