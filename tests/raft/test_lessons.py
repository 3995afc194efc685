"""Known bugs of Raft implementations, R1–R49 of the project's fault list, each with a test that has its number.

Here are R1–R25, in `test_lessons_members` R26–R46. The others are tested where they can happen, or cannot happen:

R5, R43: the core learns of durability only through `advance`; that it means synced bytes is shown in
    tests/integration/test_syscalls.py::test_every_answer_leaves_after_the_sync_of_its_record
    tests/runtime/test_journal.py::test_nothing_is_written_or_durable_before_the_flush_and_its_sync
    tests/runtime/test_journal_crashes.py::test_a_crash_at_any_step_loses_nothing_durable
R17: tests/raft/test_log.py::test_the_tail_equals_a_list
    tests/storage/test_replica_log.py::test_a_cut_keeps_lower_entries_and_appends_continue_there
R23: nothing is stored of what is applied; a restart applies from where the state machine says (R25)
R24: the core is deterministic, and replicas are compared byte by byte:
    tests/raft/test_schedules.py::test_the_same_seed_gives_the_same_run_under_any_hash_seed
    tests/checkers/test_replicas.py::test_one_changed_byte_anywhere_is_detected
R30: which members a group gets is the controller's choice; the core goes from any configuration to any other through a
    joint one: tests/raft/test_configuration.py::test_a_change_ends_in_the_requested_configuration
R39: there are no leases, and no clock but ticks; a read always needs a quorum's answers (R37, R38, R40)
R42: tests/storage/test_recovery.py::test_a_failed_sync_is_never_retried
    tests/runtime/test_journal.py::test_a_failed_sync_ends_the_journal_and_is_never_retried
R44: tests/runtime/test_journal_valid_range.py::test_any_subset_of_an_unfinished_write_is_torn
    tests/raft/test_log.py::test_the_sync_of_cut_bytes_does_not_cover_later_ones
R45: tests/runtime/test_journal_valid_range.py::test_damage_to_any_synced_block_is_reported
    tests/storage/test_recovery.py::test_a_flipped_bit_in_the_last_batch_is_damage_because_its_row_proves_the_sync
R47: tests/storage/test_recovery.py::test_a_damaged_meta_file_without_an_entry_is_refused_and_nothing_is_changed
R48: tests/raft/test_bounds.py::test_appends_in_flight_are_bounded
    tests/raft/test_bounds.py::test_r48_a_replica_that_lags_far_gets_offers_until_it_is_close
    tests/runtime/test_log_fetch.py::test_unsynced_bytes_of_a_transfer_are_bounded
R49: tests/runtime/test_journal_valid_range.py::test_a_block_in_the_wrong_place_is_reported
    tests/storage/test_adversity.py::test_a_damaged_length_is_never_trusted
"""

import re
from collections import deque
from pathlib import Path
from random import Random

from jepsen.simulation.memory_log import MemoryLog
from raftlog.raft.core import RaftCore
from raftlog.raft.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    VoteRequest,
    VoteResponse,
)
from raftlog.raft.ready import Accepted, HardState, RefusalReason, RefusedProposal, Restart, Role
from raftlog.raft.settings import RaftSettings
from raftlog.types import Index, Term
from tests.raft.cluster import Cluster, configuration
from tests.raft.lone import FOUR, ONE, THREE, TWO, LoneFollower, entry, entry_id, make_replicating_cluster, progress_of


def test_every_lesson_has_a_test_or_a_reason() -> None:
    """Each bug has a test with its number, or an entry in the module docstring whose tests exist."""
    assert __doc__ is not None
    root = Path(__file__).parents[2]
    names = [
        name
        for file in Path(__file__).parent.glob("test_*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text())
    ]
    tested = {int(number) for name in names for number in re.findall(r"_r(\d+)", name)}
    explained = {int(number) for number in re.findall(r"\bR(\d+)(?=[,:])", __doc__)}
    assert tested | explained == set(range(1, 50))
    for file, test in re.findall(r"(tests/\S+\.py)::(\w+)", __doc__):
        assert f"def {test}(" in (root / file).read_text(), f"{file} has no {test}"


# persistent state


def test_r1_r2_nothing_of_a_new_term_is_sent_before_it_is_durable() -> None:
    """Answers to appends count too: they carry the new term."""
    core = RaftCore(
        TWO, RaftSettings(), Random(0), MemoryLog(), Restart(HardState(Term(0), None), (configuration([1, 2, 3]),))
    )
    core.step(AppendRequest(ONE, TWO, Term(4), 1, entry_id(9, 3), (), Index(0)))
    ready = core.ready()
    assert ready is not None
    assert ready.hard_state == HardState(Term(4), None)
    assert ready.messages_now == ()
    assert [type(message) for message in ready.messages_once_durable] == [AppendResponse]


def test_r3_the_term_never_falls_below_the_log() -> None:
    log = MemoryLog([entry(1, 1), entry(2, 5)])
    restart = Restart(HardState(Term(2), THREE), (configuration([1, 2, 3]),))
    assert RaftCore(TWO, RaftSettings(), Random(0), log, restart).status().vote is None, "that vote was of another term"
    follower = LoneFollower(1, 1, 5, term=2)
    assert follower.core.term == 5
    assert follower.core.status().vote is None
    assert follower.readys[0].hard_state == HardState(Term(5), None)


def test_r4_the_stored_commit_index_is_bounded_by_the_log() -> None:
    assert LoneFollower(1, 1, committed=7).core.committed_index == 2


def test_r6_the_vote_of_a_term_survives_stepping_down() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.core(1).step_down("told to")
    assert cluster.core(1).status().vote == ONE
    cluster.core(1).step(VoteRequest(TWO, ONE, Term(1), 1, entry_id(99, 1)))
    cluster[1].handle_readys()
    assert [answer.is_granted for answer in cluster.take_messages(VoteResponse, to=2)] == [False]


def test_r7_answers_to_pre_votes_are_not_votes() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.core(1).campaign()
    cluster[1].handle_readys()
    first = cluster.take_messages(PreVoteRequest)[0]
    assert cluster.core(1).status().vote is None
    granted = PreVoteResponse(TWO, ONE, Term(0), first.sequence, Term(1), True)
    for other in (granted._replace(campaign_term=Term(2)), granted._replace(sequence=first.sequence - 1)):
        cluster.core(1).step(other)
        cluster[1].handle_readys()
        assert cluster.core(1).role is Role.PRE_CANDIDATE
    cluster.core(1).step(granted)
    cluster[1].handle_readys()
    assert cluster.core(1).role is Role.CANDIDATE
    for late in (granted, granted._replace(sender=THREE), granted._replace(sender=THREE, term=Term(1))):
        cluster.core(1).step(late)
        cluster[1].handle_readys()
    assert cluster.core(1).role is Role.CANDIDATE


def test_r8_a_candidate_that_is_behind_learns_the_term_from_a_refusal() -> None:
    cluster = Cluster([1, 2, 3])
    cluster[2].crash()
    cluster[3].crash()
    for number in (2, 3):
        cluster[number].disk.hard_state = HardState(Term(8), None)
        cluster[number].start()
    cluster.elect(1)
    assert cluster.core(1).term > 8


def test_r9_a_doubled_vote_counts_once() -> None:
    cluster = Cluster([1, 2, 3, 4, 5])
    cluster.core(1).campaign()
    cluster[1].handle_readys()
    while cluster.core(1).role is not Role.CANDIDATE:
        cluster.deliver()
    request = cluster.take_messages(VoteRequest, to=2)[0]
    vote = VoteResponse(TWO, ONE, Term(1), request.sequence, True)
    for _ in range(5):
        cluster.core(1).step(vote)
        cluster[1].handle_readys()
    assert cluster.core(1).role is Role.CANDIDATE
    cluster.core(1).step(vote._replace(sender=TWO._replace(disk_uuid=FOUR.disk_uuid)))
    cluster[1].handle_readys()
    assert cluster.core(1).role is Role.CANDIDATE, "another disk of that node is no voter"
    cluster.core(1).step(vote._replace(is_granted=False))
    cluster.core(1).step(vote._replace(sender=THREE))
    cluster[1].handle_readys()
    assert cluster.core(1).role is Role.LEADER, "a vote that was given cannot be taken back"


# log replication


def test_r10_r11_old_entries_are_committed_only_with_the_first_entry_of_the_own_term() -> None:
    """The scenario `own_term_commit` is thesis figure 3.7; here old and new entries are committed in one step."""
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.cut = lambda message: isinstance(message, AppendResponse)
    cluster.propose(1, "a", "b", "c")
    cluster.settle()
    assert cluster.core(2).committed_index == 1
    cluster[1].crash()
    cluster.isolate()
    cluster.elect(2)
    assert cluster.data(2) == ["a", "b", "c"]
    assert cluster.core(2).committed_index == 5


def test_r12_a_late_shorter_append_cuts_nothing() -> None:
    follower = LoneFollower(1)
    follower.append(2, entry_id(1, 1), 2, 2, 2, 2, sequence=2)
    follower.append(2, entry_id(1, 1), 2, 2, sequence=1)
    assert follower.terms() == [1, 2, 2, 2, 2]
    assert follower.last_answer().durable == 5
    follower.append(2, entry_id(1, 1), sequence=1)
    assert follower.terms() == [1, 2, 2, 2, 2]


def test_r13_a_conflict_cuts_all_later_entries() -> None:
    follower = LoneFollower(1, 1, 1, 1, 1)
    follower.append(2, entry_id(2, 1), 2)
    assert follower.terms() == [1, 1, 2]
    assert follower.readys[-2].cut_to == 2


def test_r14_an_empty_append_or_heartbeat_commits_only_verified_entries() -> None:
    follower = LoneFollower(1, 1, 1, 1)
    follower.append(3, entry_id(2, 1), committed=4)
    assert follower.core.committed_index == 2
    follower.core.step(Heartbeat(ONE, TWO, Term(3), 2, Index(4)))
    follower.handle_readys()
    assert follower.core.committed_index == 2


def test_r14_an_empty_append_acknowledges_only_verified_entries() -> None:
    """Other durable entries may be another leader's, and would count for entries of this leader at the same indexes."""
    follower = LoneFollower(1, 1, 1, 1, 1)
    follower.append(2, entry_id(3, 1))
    answer = follower.last_answer()
    assert (answer.is_accepted, answer.verified, answer.durable, answer.written) == (True, 3, 3, 3)
    assert follower.terms() == [1, 1, 1, 1, 1]


def test_r15_a_gap_is_refused() -> None:
    follower = LoneFollower(1)
    follower.append(1, entry_id(3, 1), 1)
    assert follower.terms() == [1]
    assert not follower.last_answer().is_accepted
    assert follower.last_answer().hint == entry_id(1, 1)


def test_r15_a_predecessor_of_another_term_is_refused_with_a_hint_of_a_whole_term() -> None:
    follower = LoneFollower(1, 2, 2, 4, 4, 4)
    follower.append(5, entry_id(6, 3), 5)
    assert follower.last_answer().hint == entry_id(3, 2)


def test_r16_late_refusals_and_answers_do_not_lower_progress() -> None:
    cluster = make_replicating_cluster()
    before = progress_of(cluster, TWO)
    assert before == ("replicate", 4, 5)
    for sequence in (0, 1, 2):
        nothing = Index(0)
        refusal = AppendResponse(TWO, ONE, Term(1), sequence, False, nothing, nothing, nothing, entry_id(1, 1))
        cluster.core(1).step(refusal)
        cluster.core(1).step(refusal._replace(is_accepted=True))
    cluster.core(1).step(AppendResponse(TWO, ONE, Term(1), 10**9, True, Index(99), Index(99), Index(99)))
    assert progress_of(cluster, TWO) == before


def test_r16_a_refusal_overtaken_by_an_acknowledgement_does_not_lower_progress() -> None:
    cluster = make_replicating_cluster()
    cluster.propose(1, "d")
    (append,) = cluster.take_messages(AppendRequest, to=2)
    cluster.core(2).step(append)
    cluster[2].handle_readys()
    cluster.settle()
    before = progress_of(cluster, TWO)
    nothing = Index(0)
    late = AppendResponse(TWO, ONE, Term(1), append.sequence, False, nothing, nothing, nothing, entry_id(4, 1))
    cluster.core(1).step(late)
    assert progress_of(cluster, TWO) == before == ("replicate", 5, 6)


def test_r16_many_refusals_of_one_loss_are_answered_by_one_probe() -> None:
    cluster = make_replicating_cluster()
    cluster.propose(1, "lost")
    cluster.take_messages(AppendRequest, to=2)
    for payload in "xyz":
        cluster.propose(1, payload)
    for append in cluster.take_messages(AppendRequest, to=2):
        cluster.core(2).step(append)
        cluster[2].handle_readys()
    refusals = cluster.take_messages(AppendResponse)
    assert [answer.is_accepted for answer in refusals if answer.sender == TWO] == [False] * 3
    for answer in refusals:
        cluster.core(1).step(answer)
        cluster[1].handle_readys()
    assert [append.is_probe for append in cluster.take_messages(AppendRequest, to=2)] == [True]


def test_r16_a_lost_append_is_detected_by_the_next_heartbeat() -> None:
    cluster = make_replicating_cluster()
    cluster.propose(1, "lost")
    cluster.network.clear()
    cluster.tick(4)
    assert cluster.data(2) == cluster.data(3) == ["a", "b", "c", "lost"]


def test_r16_a_lost_answer_is_replaced_by_the_next_heartbeats_answer() -> None:
    cluster = make_replicating_cluster()
    cluster.cut = lambda message: isinstance(message, AppendResponse)
    cluster.propose(1, "d")
    cluster.settle()
    assert cluster.core(1).committed_index == 4
    cluster.tick(4)
    assert cluster.core(1).committed_index == 5


def test_r16_lost_appends_are_detected_at_any_round_trip_time() -> None:
    """F26: the round trip exceeds the heartbeat interval, so each heartbeat is sent before the last answer."""
    cluster = make_replicating_cluster(heartbeat_ticks=1, in_flight_entries_max=4)
    late: deque[list[Message]] = deque([[] for _ in range(5)])
    cluster.propose(1, *range(20))
    assert len(cluster.take_messages(AppendRequest)) == 2
    for _ in range(60):
        for node in cluster.nodes.values():
            node.core.tick()
            node.handle_readys()
        late.append(cluster.network[:])
        cluster.network.clear()
        for message in late.popleft():
            cluster.nodes[message.to].core.step(message)
            cluster.nodes[message.to].handle_readys()
    assert cluster.core(1).role is Role.LEADER
    assert progress_of(cluster, TWO)[1] == progress_of(cluster, THREE)[1] == 24


def test_r16_heartbeats_of_reads_do_not_hide_a_lost_append() -> None:
    """Each round of reads is a heartbeat too, and starts before the answer to the previous one arrives."""
    cluster = make_replicating_cluster(heartbeat_ticks=1)
    cluster.propose(1, "lost")
    cluster.network.clear()
    before: list[Message] = []
    for request in range(20):
        cluster.core(1).read_index(request)
        cluster[1].handle_readys()
        before, cluster.network = cluster.network, before
        cluster.settle()
    assert [cluster.data(number)[-1:] for number in (2, 3)].count(["lost"]) == 1, (
        "it was asked, and sent the missing entries"
    )
    cluster.tick(2)
    cluster.settle()
    assert cluster.data(2)[-1] == cluster.data(3)[-1] == "lost"


def test_r18_learners_do_not_count() -> None:
    cluster = Cluster([1, 2, 3], [4, 5])
    cluster.elect(1)
    cluster.isolate(1, 4, 5)
    cluster.propose(1, "a")
    cluster.settle()
    assert cluster.core(1).committed_index == 1
    assert progress_of(cluster, FOUR)[1] == 2


def test_r19_a_lost_leadership_is_no_failure_of_its_entries() -> None:
    """The next leader can still commit an accepted entry, as in this test."""
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    accepted = cluster.propose(1, "a")
    assert accepted == Accepted(Term(1), Index(2), Index(2))
    cluster.deliver()
    cluster[1].core.step_down("stalled")
    cluster[1].handle_readys()
    cluster.network.clear()
    cluster.elect(2)
    assert cluster.data(1) == ["a"]
    refused = cluster.propose(1, "b")
    assert refused == RefusedProposal(RefusalReason.NOT_LEADER, TWO)
