"""Mutants of the Raft core (`raftlog/raft`)."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_TESTS: Final = ("tests/raft",)


def _raft(name: str, place: str, old: str, new: str, equivalent: str = "") -> Mutant:
    """Return a mutant at `place`, which is module:function."""
    module, _, function = place.partition(":")
    return Mutant(f"raft-{name}", f"raftlog/raft/{module}.py", function, old, new, _TESTS, equivalent)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # votes
    _raft("vote-twice", "election:decide_vote", "replica.vote not in (None, request.sender) or ", ""),
    _raft(
        "vote-stale-log",
        "election:decide_vote",
        " or not is_at_least_as_up_to_date(request.last, replica.vote_floor)",
        "",
    ),
    _raft(
        "pre-vote-stale-log",
        "election:grants_pre_vote",
        " and is_at_least_as_up_to_date(request.last, replica.vote_floor)",
        "",
    ),
    _raft(
        "pre-vote-own-term",
        "election:grants_pre_vote",
        "request.campaign_term > replica.term",
        "True",
        equivalent="The core asks only after the replica's term is that of the request, adopted if need be, and "
        "`admission.is_acceptable` has refused requests whose campaign term is not above it.",
    ),
    _raft(
        "vote-for-strangers",
        "election:is_eligible",
        "return is_more_up_to_date(request.last, replica.log.last_id)",
        "return True",
    ),
    _raft("vote-without-membership", "election:is_eligible", " and configuration.has_voter(replica.me)", ""),
    _raft(
        "disloyal", "core:RaftCore._step_vote_request", "self._role.has_leader_contact() and not is_transfer", "False"
    ),
    _raft("loyal-in-transfer", "core:RaftCore._step_vote_request", " and not is_transfer", ""),
    _raft(
        "keep-vote-in-new-term",
        "core:RaftCore._adopt_term",
        "set_hard_state(term, None)",
        "set_hard_state(term, self._replica.vote)",
    ),
    _raft("count-vote-early", "candidate:Candidate.prepare", " and replica.is_hard_state_durable", ""),
    _raft(
        "count-old-votes",
        "candidate:Candidate._record_answer_of_phase",
        "if message.sequence == self._sequence:",
        "if True:",
    ),
    _raft("change-a-vote", "candidate:Candidate._record_vote", "if voter not in self.votes:", "if True:"),
    _raft(
        "pre-vote-of-another-term",
        "candidate:Candidate.handle_pre_vote",
        " and message.campaign_term == self._replica.term + 1",
        "",
    ),
    _raft("quarantined-campaigns", "replica:RaftReplica.may_campaign", "not self.is_quarantined\n            and ", ""),
    _raft(
        "voting-position-campaigns",
        "replica:RaftReplica.may_campaign",
        "            and self.voting_position is None\n",
        "",
    ),
    _raft(
        "learner-campaigns",
        "replica:RaftReplica.may_campaign",
        "            and self.history.may_be_voter(self.me)\n",
        "",
    ),
    _raft(
        "campaign-in-the-last-term", "replica:RaftReplica.may_campaign", "            and self.term < TERM_MAX\n", ""
    ),
    _raft(
        "forget-the-lost-entry",
        "replica:RaftReplica.vote_floor",
        "return last if lost is None or is_at_least_as_up_to_date(last, lost) else lost",
        "return last",
    ),
    # terms and strangers
    _raft(
        "term-of-a-removed-replica",
        "admission:is_acceptable",
        "return replica.configuration.has_member(message.sender)",
        "return True",
    ),
    _raft("messages-for-others", "admission:is_acceptable", "message.to != replica.me or ", ""),
    _raft("last-term", "admission:is_acceptable", "if message.term > TERM_TAKEN_MAX:", "if False:"),
    _raft("last-campaign-term", "admission:is_acceptable", "if message.campaign_term > TERM_TAKEN_MAX:", "if False:"),
    _raft(
        "entries-with-a-hole", "admission:is_contiguous", "first.index == message.previous.index + 1\n        and ", ""
    ),
    _raft("entries-of-the-future", "admission:is_contiguous", " <= message.term", ""),
    _raft(
        "silent-to-old-leaders",
        "admission:answer_stale",
        "if isinstance(message, (AppendRequest, InstallOffer)):",
        "if False:",
    ),
    _raft("two-leaders", "core:RaftCore._follow_sender", "elif self._role.leader is not None:", "elif False:"),
    # following
    _raft(
        "commit-beyond-verified",
        "follower:Follower.handle_append",
        "min(message.committed, self.verified)",
        "min(message.committed, replica.log.last_index)",
    ),
    _raft(
        "heartbeat-commit-beyond-verified",
        "follower:Follower.handle_heartbeat",
        "min(message.committed, self.verified)",
        "min(message.committed, replica.log.last_index)",
    ),
    _raft(
        "acknowledge-unsynced",
        "follower:Follower.prepare",
        "durable = min(replica.durability.durable_index, self.verified)",
        "durable = self.verified",
    ),
    _raft(
        "acknowledge-unverified",
        "follower:Follower.prepare",
        "durable = min(replica.durability.durable_index, self.verified)",
        "durable = replica.durability.durable_index",
    ),
    _raft(
        "heartbeat-acknowledges-unverified",
        "follower:Follower.handle_heartbeat",
        "durable = min(replica.durability.durable_index, self.verified)",
        "durable = replica.durable_index",
    ),
    _raft(
        "verified-falls",
        "follower:Follower.handle_append",
        "self.verified = max(self.verified, Index(previous.index + len(entries)))",
        "self.verified = Index(previous.index + len(entries))",
    ),
    _raft("cut-what-matches", "follower:Follower._append_missing", "entries = entries[missing:]", "pass"),
    _raft("cut-what-was-verified", "follower:Follower._append_missing", "if conflict <= self.verified:", "if False:"),
    _raft("committed-contradiction", "follower:Follower._skip_committed", "if leader_term != term:", "if False:"),
    _raft("sleep-with-reads", "follower:Follower._may_quiesce", "            and len(self._reads) == 0\n", ""),
    # leading
    _raft("commit-an-old-term", "leader:Leader._commit", "index >= self.first_own_index and ", ""),
    _raft(
        "count-own-unsynced",
        "replication:Replication.quorum_durable",
        "own = self._replica.durability.durable_index",
        "own = self._replica.log.last_index",
    ),
    _raft(
        "read-without-quorum",
        "leader:Leader._answer_confirmed_reads",
        "self._reads.confirm(self.replication.quorum_sequence())",
        "self._reads.confirm(self.replication.sequence)",
    ),
    _raft("read-before-own-commit", "leader:Leader._is_round_due", " and self.has_own_term_commit", ""),
    _raft(
        "change-before-own-commit",
        "leader:Leader.propose_configuration",
        "if not self.has_own_term_commit:",
        "if False:",
    ),
    _raft(
        "change-during-a-change",
        "leader:Leader.propose_configuration",
        "if current.is_joint or current.index > replica.committed:",
        "if current.is_joint:",
    ),
    _raft(
        "change-without-compare",
        "leader:Leader.propose_configuration",
        "if change.replaces_index != current.index:",
        "if False:",
    ),
    _raft(
        "leave-joint-early",
        "leader:Leader._leave_joint_if_committed",
        "            or current.index > replica.committed\n",
        "",
    ),
    _raft(
        "reads-wait-for-removed-voters",
        "leader:Leader._append_configuration",
        "        self._answer_confirmed_reads()  # by the quorum that counts now, which may be this replica alone\n",
        "",
    ),
    _raft("lead-without-quorum", "leader:Leader.tick", "if not self.replication.is_quorum_active():", "if False:"),
    _raft("lead-when-removed", "leader:Leader.prepare", "if self._is_removed():", "if False:"),
    _raft("propose-in-transfer", "leader:Leader.propose", "if self._transfer.target is not None:", "if False:"),
    _raft(
        "transfer-to-the-lagging",
        "transfer:Transfer.request_campaign_if_caught_up",
        "if target.match_index < replica.log.last_index:",
        "if False:",
    ),
    _raft("answer-of-the-future", "replication:Replication._record_answer", " or sequence > self.sequence", ""),
    _raft(
        "impossible-acknowledgement",
        "replication:Replication._are_possible_indexes",
        "durable <= written <= verified <= self._replica.log.last_index",
        "True",
    ),
    _raft(
        "install-beyond-the-end",
        "replication:Replication.handle_install",
        " or boundary.index > self._replica.log.last_index",
        "",
    ),
    _raft(
        "heartbeat-commit-of-the-leader",
        "replication:Replication.send_heartbeats",
        "known = match if match < committed else committed",
        "known = committed",
    ),
    # quorums
    _raft("joint-needs-one-half", "quorum:quorum_value", "min(value, majority_value(outgoing))", "value"),
    _raft(
        "joint-vote-needs-one-half",
        "quorum:has_quorum",
        "not configuration.outgoing or _has_majority(configuration.outgoing, agreeing)",
        "True",
    ),
    _raft("half-is-a-majority", "quorum:majority_size", "voters // 2 + 1", "(voters + 1) // 2"),
    _raft("minority-value", "quorum:majority_value", "(len(values) - 1) // 2", "len(values) // 2"),
    # log and configurations
    _raft(
        "durable-before-predecessor",
        "durability:Durability.cut_to",
        "self.durable_index = min(self.durable_index, index)",
        "pass",
    ),
    _raft("configuration-stays-after-cut", "replica:RaftReplica.cut_to", "self.history.roll_back_to(index)", "pass"),
    _raft(
        "forget-configurations-early",
        "configuration:ConfigurationHistory.commit_to",
        "self._known[1].index <= committed",
        "self._known[1].index <= committed + 1",
    ),
    _raft(
        "conflict-hint-of-a-later-term",
        "tail:LogTail.last_index_of_term",
        "if self.term_at(middle) <= term:",
        "if self.term_at(middle) < term:",
    ),
    _raft(
        "stale-read-index",
        "read_index:LeaderReads.begin_round",
        "_Round(sequence, committed, self._waiting)",
        "_Round(sequence, Index(committed - 1), self._waiting)",
    ),
    _raft("read-before-applied", "read_index:ReadsToApply.confirm", "read.index <= applied", "True"),
    # deferred appends
    _raft("defer-without-bound", "replication:Replication.send_appends", "if not may_defer:", "if False:"),
    _raft(
        "defer-for-ever", "core:RaftCore.send_deferred_appends", "            role.replication.send_deferred()\n", ""
    ),
    _raft(
        "keep-a-silent-quorum",
        "replication:Replication.note_commit",
        "            self._choose_fastest()  # others were faster; they may lack deferred entries",
        "            pass",
    ),
    _raft("defer-while-joint", "replication:Replication._choose_fastest", "if self._outgoing or not", "if not"),
    _raft(
        "defer-older-entries",
        "replication:Replication._try_defer",
        "            or progress.next_index < self._unsent_from\n",
        "",
    ),
    _raft(
        "transfer-waits-for-deferral",
        "leader:Leader.transfer_leadership",
        "        self.replication.send_deferred()\n",
        "",
    ),
    _raft(
        "no-better-candidate",
        "election:is_better_candidate",
        "is_more_up_to_date(replica.log.last_id, request.last)",
        "False",
    ),
    _raft(
        "equal-candidate-campaigns",
        "election:is_better_candidate",
        " and is_more_up_to_date(replica.log.last_id, request.last)",
        "",
    ),
    _raft("unfit-campaigns-first", "election:is_better_candidate", " and not replica.is_unfit", ""),
    # what is said when
    _raft(
        "say-before-durable",
        "ready_builder:ReadyBuilder.take",
        "(messages, ()) if replica.is_hard_state_durable else ((), messages)",
        "(messages, ())",
    ),
    _raft(
        "deliver-what-is-not-durable",
        "ready_builder:ReadyBuilder._take_apply",
        "last = min(replica.committed, replica.durability.durable_index)",
        "last = replica.committed",
    ),
    _raft(
        "hard-state-durable-early",
        "replica:RaftReplica.is_hard_state_durable",
        "return not self.is_hard_state_changed and self.durability.durable_number >= self.hard_state_number",
        "return not self.is_hard_state_changed",
    ),
)
