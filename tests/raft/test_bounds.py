"""Bounds and refusals: windows, queues, terms, incomplete messages, broken promises."""

from random import Random

import pytest

from jepsen.simulation.memory_log import MemoryLog
from raftlog.raft.core import RaftCore
from raftlog.raft.entry import TERM_MAX, Entry, EntryId, EntryKind, Proposal
from raftlog.raft.message_errors import Contradiction, TermRefused
from raftlog.raft.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    InstallOffer,
    Message,
    PreVoteRequest,
    VoteRequest,
)
from raftlog.raft.ready import Accepted, HardState, RefusalReason, Restart, Role
from raftlog.raft.settings import RaftSettings
from raftlog.raft.supply import SupplyRefusal, SupplyRequest
from raftlog.types import Index, Term
from tests.raft.cluster import Cluster, configuration
from tests.raft.lone import ONE, THREE, TWO, LoneFollower, entry, entry_id, make_replicating_cluster, refusal_reason


def test_appends_in_flight_are_bounded() -> None:
    cluster = make_replicating_cluster(in_flight_entries_max=10, in_flight_bytes_max=1000, entries_per_message_max=4)
    cluster.propose(1, *range(100))
    sent = cluster.take_messages(AppendRequest, to=2)
    assert [len(append.entries) for append in sent] == [4, 4, 2]
    cluster = make_replicating_cluster(in_flight_bytes_max=1000, message_bytes_max=300)
    cluster.propose(1, *range(100), size_bytes=100)
    sent = cluster.take_messages(AppendRequest, to=2)
    assert [len(append.entries) for append in sent] == [3, 3, 3, 1]
    cluster.propose(1, "large", size_bytes=10**9)
    assert not cluster.take_messages(AppendRequest, to=2)
    cluster.network.clear()
    cluster.tick(8)
    assert cluster.data(2)[-1] == "large", "an entry above every bound still travels, alone"


def test_r48_a_replica_that_lags_far_gets_offers_until_it_is_close() -> None:
    """The leader neither reads nor holds the missing entries; once a round trip it offers them to be fetched."""
    cluster = make_replicating_cluster(fetch_bytes_min=1000)
    cluster[3].crash()
    cluster.propose(1, *range(30), size_bytes=100)
    cluster.settle()
    last, hint = cluster.core(1).last_id, entry_id(2, 1)
    cluster.tick_one(1, 3)
    (heartbeat,) = cluster.take_messages(Heartbeat, to=3)
    cluster.core(1).step(HeartbeatResponse(THREE, ONE, Term(1), heartbeat.sequence, hint.index, hint.index))
    cluster[1].handle_readys()
    (probe,) = cluster.take_messages(AppendRequest, to=3)
    assert len(probe.entries) == 30, "where the logs part was not known, so this was a probe"
    agreed = AppendResponse(THREE, ONE, Term(1), probe.sequence, True, Index(2), Index(2), Index(2))
    cluster.core(1).step(agreed)
    cluster[1].handle_readys()
    (offer,) = cluster.take_messages(InstallOffer, to=3)
    cluster.propose(1, "x", size_bytes=100)
    assert not cluster.take_messages(AppendRequest, to=3)
    assert not cluster.take_messages(InstallOffer, to=3)
    for held, is_near in ((last.index - 5, False), (last.index - 1, True)):
        cluster.core(1).step(AppendResponse(THREE, ONE, Term(1), offer.sequence, True, held, held, held))
        cluster[1].handle_readys()
        assert bool(cluster.take_messages(AppendRequest, to=3)) == is_near


def test_a_leader_supplies_entries_to_fetchers() -> None:
    cluster = make_replicating_cluster()
    cluster.propose(1, *"abcdef")
    cluster.settle()
    cluster[1].trim(Index(3))

    def supply(number: int, term: int, after: EntryId) -> AppendRequest | SupplyRefusal:
        return cluster.core(number).supply(SupplyRequest(THREE, Term(term), 7, after, 2, 100))

    last = cluster.core(1).last_id
    supplied = supply(1, 1, entry_id(4, 1))
    assert isinstance(supplied, AppendRequest)
    assert [entry.index for entry in supplied.entries] == [5, 6]
    assert (supplied.to, supplied.sequence, supplied.previous, supplied.is_probe) == (THREE, 7, (4, 1), False)
    at_end = supply(1, 1, last)
    assert isinstance(at_end, AppendRequest)
    assert at_end.entries == ()
    assert supply(1, 1, entry_id(2, 1)) is SupplyRefusal.TRIMMED
    assert supply(1, 1, entry_id(last.index + 1, 1)) is supply(1, 1, entry_id(4, 2)) is SupplyRefusal.LOG_MISMATCH
    assert supply(1, 2, last) is supply(2, 1, last) is SupplyRefusal.NOT_LEADING


def test_a_leader_bounds_the_accepted_proposals() -> None:
    cluster = Cluster([1, 2, 3], settings=RaftSettings(uncommitted_entries_max=10, pending_reads_max=2))
    cluster.elect(1)
    assert isinstance(cluster.propose(1, *range(10)), Accepted)
    assert refusal_reason(cluster.propose(1, "x")) is RefusalReason.OVERLOADED
    assert [refusal_reason(cluster.core(1).read_index(request)) for request in range(3)] == [
        None,
        None,
        RefusalReason.OVERLOADED,
    ]
    cluster.settle()
    assert isinstance(cluster.propose(1, "x"), Accepted)
    cluster = Cluster([1, 2, 3], settings=RaftSettings(uncommitted_bytes_max=100))
    cluster.elect(1)
    assert isinstance(cluster.core(1).propose([Proposal("x", 200)]), Accepted)
    assert refusal_reason(cluster.propose(1, "y")) is RefusalReason.OVERLOADED
    cluster[1].handle_readys()
    for _ in range(4):
        cluster.settle()
        assert isinstance(cluster.propose(1, "z", size_bytes=60), Accepted), "what is committed does not count"


def test_confirmed_reads_that_wait_for_a_slow_state_machine_are_bounded() -> None:
    """Their round has ended, so they are no pending reads of the leader, but they still count."""
    log = MemoryLog()
    restart = Restart(HardState(Term(0), None), (configuration([1]),))
    core = RaftCore(ONE, RaftSettings(pending_reads_max=2), Random(0), log, restart)
    core.campaign()
    for _ in range(4):
        ready = core.ready()
        if ready is not None:
            log.append(ready.entries)
            core.advance(durable=ready.number)
    assert core.has_own_term_commit
    outcomes = []
    for request in range(4):
        outcomes.append(refusal_reason(core.read_index(request)))
        ready = core.ready()
        assert ready is None or ready.reads == ()
    assert outcomes == [None, None, RefusalReason.OVERLOADED, RefusalReason.OVERLOADED]
    core.advance(applied=Index(1))
    ready = core.ready()
    assert ready is not None
    assert [read.request for read in ready.reads] == [0, 1]
    assert core.read_index(4) is None


def test_terms_beyond_the_format_are_refused() -> None:
    follower = LoneFollower(1)
    with pytest.raises(TermRefused):
        follower.core.step(VoteRequest(ONE, TWO, Term(TERM_MAX + 1), 1, entry_id(9, 1)))
    with pytest.raises(TermRefused):
        follower.core.step(PreVoteRequest(ONE, TWO, Term(1), 1, Term(TERM_MAX + 1), entry_id(9, 1)))
    follower.core.step(PreVoteRequest(ONE, TWO, Term(1), 1, Term(1), entry_id(9, 1)))
    assert follower.core.messages_refused == 1
    assert follower.core.term == 1
    last = LoneFollower(term=TERM_MAX)
    assert not last.core.campaign()
    for _ in range(100):
        last.core.tick()
    assert last.core.role is Role.FOLLOWER


@pytest.mark.parametrize(
    ("previous", "terms", "term"),
    [
        (entry_id(1, 1), [(3, 1)], 1),
        (entry_id(1, 1), [(3, 1), (3, 1)], 1),
        (entry_id(1, 1), [(2, 1), (4, 1)], 1),
        (entry_id(1, 1), [(2, 2)], 1),
        (entry_id(1, 1), [(2, 0)], 1),
    ],
)
def test_a_malformed_message_is_refused(previous: EntryId, terms: list[tuple[int, int]], term: int) -> None:
    follower = LoneFollower(1)
    entries = tuple(entry(index, of) for index, of in terms)
    follower.core.step(AppendRequest(ONE, TWO, Term(term), 1, previous, entries, Index(0)))
    assert follower.core.messages_refused == 1
    assert follower.terms() == [1]


def test_committed_entries_are_never_cut() -> None:
    """A leader that contradicts a committed entry breaks Raft: this is reported, and the entry stays."""
    follower = LoneFollower(1, 1, committed=2)
    with pytest.raises(Contradiction, match="is committed with term 1"):
        follower.append(3, entry_id(1, 1), 3)
    assert follower.terms() == [1, 1]


def test_a_cut_below_the_first_configuration_removes_all_peers() -> None:
    """A replica starts with an empty log, restarts, and its log is cut below its first configuration."""
    log = MemoryLog([entry(1, 1)])
    added = configuration([1, 3])._replace(index=Index(2))
    log.append([Entry(Index(2), Term(1), EntryKind.CONFIGURATION, 0, None, added)])
    core = RaftCore(TWO, RaftSettings(), Random(0), log, Restart(HardState(Term(1), None), (added,)))
    core.step(AppendRequest(ONE, TWO, Term(2), 1, entry_id(1, 1), (entry(2, 2),), Index(0)))
    assert core.configuration.voters == ()


def test_a_candidate_of_the_last_term_steps_down() -> None:
    """The candidate is the only voter, as no other would answer in that term; its own vote does not become durable."""
    follower = LoneFollower(term=TERM_MAX - 1, members=(2,))
    follower.core.campaign()
    follower.core.ready()
    assert (follower.core.role, follower.core.term) == (Role.CANDIDATE, TERM_MAX)
    for _ in range(100):
        follower.core.tick()
    assert follower.core.role is Role.FOLLOWER


@pytest.mark.parametrize("request_is", ["read", "propose"])
def test_inputs_before_a_tick_are_in_its_ready(request_is: str) -> None:
    """The fast path of an idle leader's tick must not be taken when there are messages to send."""
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    core = cluster.core(1)
    if request_is == "read":
        core.read_index("r")
    else:
        core.propose([Proposal("x", 1)])
    for _ in range(RaftSettings().heartbeat_ticks):
        core.tick()
    cluster[1].handle_readys()
    asked = cluster.network[-1].to  # a round of reads asks one of the two
    sent = [type(message) for message in cluster.network if message.to == asked]
    assert sent == [Heartbeat, Heartbeat if request_is == "read" else AppendRequest], "one of them is the tick's own"


def test_files_with_an_older_boundary_are_not_installed() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.propose(1, *"abc")
    cluster.settle()
    cluster[2].trim(Index(3))
    assert not cluster.core(2).needs_install(entry_id(2, 1))


def test_reads_forwarded_by_a_follower_are_bounded() -> None:
    cluster = Cluster([1, 2, 3], settings=RaftSettings(pending_reads_max=2))
    cluster.elect(1)
    reads = [cluster.core(2).read_index(request) for request in range(3)]
    assert [refusal_reason(read) for read in reads] == [None, None, RefusalReason.OVERLOADED]
    cluster[2].handle_readys()
    cluster.settle()
    assert cluster.core(2).read_index(3) is None


def test_an_old_leader_receives_the_later_term_in_any_answer() -> None:
    follower = LoneFollower(term=5)
    old: list[Message] = [
        AppendRequest(ONE, TWO, Term(3), 7, entry_id(0, 0), (), Index(0)),
        InstallOffer(ONE, TWO, Term(3), 7, entry_id(9, 3), Index(9)),
        Heartbeat(ONE, TWO, Term(3), 7, Index(0)),
    ]
    for message in old:
        follower.sent.clear()
        follower.core.step(message)
        follower.handle_readys()
        (answer,) = follower.sent
        assert isinstance(answer, (AppendResponse, HeartbeatResponse))
        assert (answer.to, answer.term, answer.sequence) == (ONE, 5, 7)
