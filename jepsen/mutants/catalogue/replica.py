"""Mutants of a partition's replica (`raftlog/partitions/replica`): creation, readers, answers to appends, trims."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_MOVES: Final = ("tests/brokers/test_moves.py",)
_READING: Final = ("tests/replica/test_reading.py",)
_APPENDING: Final = ("tests/replica/test_appending.py",)
_CLEANING: Final = ("tests/replica/test_cleaning.py",)
_APPENDING_RULES: Final = ("tests/replica/test_appending_rules.py",)
_RETENTION_RULES: Final = ("tests/replica/test_retention_rules.py",)
_RETENTION: Final = ("tests/replica/test_retention.py",)
_RULES: Final = ("tests/replica/test_replica_rules.py",)


def _replica(name: str, place: str, old: str, new: str, tests: tuple[str, ...], equivalent: str = "") -> Mutant:
    """Return a mutant at `place`, which is module:function below `raftlog/partitions`."""
    module, _, function = place.partition(":")
    return Mutant(f"replica-{name}", f"raftlog/partitions/{module}.py", function, old, new, tests, equivalent)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # creation
    _replica(
        "moved-first-replicas-never-exist",
        "placement/assignments/assignments:Assignments._missing",
        " or (me not in replicas and me not in created[number])",
        " or me not in replicas",
        _MOVES,
    ),
    # reads
    _replica(
        "read-uncommitted",
        "replica/replica:Replica.readable_end",
        "        if core.role is Role.LEADER:\n            return group.high_watermark",
        "        if core.role is Role.LEADER:\n            return group.log_end_offset",
        _READING,
    ),
    _replica(
        "follower-answers",
        "replica/replica:Replica.readable_end",
        "if core.leader is None and offset is not None and offset < group.high_watermark:",
        "if offset is not None and offset < group.high_watermark:",
        _RULES,
    ),
    _replica(
        "damaged-one-of-many-answers",
        "replica/replica:Replica._is_alone_and_damaged",
        "return self.group.damage is not None and self.is_alone",
        "return self.group.damage is not None",
        _RULES,
    ),
    _replica(
        "out-of-range-unconfirmed",
        "replica/replica:Replica._prove_end",
        "await self._confirm(deadline)",
        "pass",
        _READING,
    ),
    _replica(
        "end-before-own-delivery",
        "replica/replica:Replica._has_own_term",
        " and group.log.term_at(group.applied_index) == core.term",
        "",
        _RULES,
    ),
    _replica(
        "linearizable-without-quorum",
        "replica/replica:Replica.offsets",
        "if linearizable:",
        "if False:",
        _READING,
    ),
    _replica(
        "uncommitted-by-time",
        "replica/replica:Replica.offset_for_timestamp",
        "return found if found is not None and found[0] < end else None",
        "return found",
        _READING,
    ),
    _replica(
        "read-below-a-trim",
        "replica/replica:Replica.fetch",
        "if offset < self.group.committed_start_offset:",
        "if False:",
        (*_READING, "tests/replica/test_committed_trims.py"),
    ),
    _replica(
        "trim-refused-by-a-deposed-leader",
        "replica/replica:Replica.delete_before",
        "await self._confirm(deadline)",
        "pass",
        _CLEANING,
    ),
    # answers to appends
    _replica(
        "append-while-damaged",
        "replica/replica:Replica._append_error",
        "if group.damage is not None or group.is_closed or self._is_closed:",
        "if group.is_closed or self._is_closed:",
        (*_APPENDING, *_READING),
    ),
    _replica(
        "too-few-copies",
        "replica/replica:Replica.append",
        "copies = self._required_copies() if acks == ALL else 0",
        "copies = 0",
        _APPENDING,
    ),
    _replica(
        "append-without-enough-replicas",
        "replica/replica:Replica._append_error",
        "return self._pending_appends.too_few_error(copies) if copies and self.is_leader else None",
        "return None",
        _APPENDING,
    ),
    _replica(
        "learners-count-as-copies",
        "replica/pending_appends:_durable_indexes",
        " if each.member in voters",
        "",
        _RULES,
    ),
    _replica(
        "active-learners-count",
        "replica/pending_appends:PendingAppends.too_few_error",
        " if status.configuration.has_voter(member)",
        "",
        _RULES,
    ),
    _replica(
        "one-copy-is-enough",
        "replica/pending_appends:PendingAppends._count_copies",
        "held[copies - 1] < committed.last_index",
        "held[0] < committed.last_index",
        _APPENDING,
    ),
    _replica(
        "copies-counted-by-a-follower",
        "replica/pending_appends:PendingAppends._count_copies",
        "if core.role is not Role.LEADER:",
        "if False:",
        _APPENDING,
    ),
    _replica(
        "written-by-another-leader",
        "replica/pending_appends:PendingAppends.answer_pending",
        " and log.term_at(last) == term:",
        ":",
        _APPENDING,
    ),
    _replica(
        "lost-append-failed",
        "replica/pending_appends:PendingAppends.answer_pending",
        'OutcomeUnknown(f"{self._name}: the leadership was lost with the append")',
        'Unavailable(f"{self._name}: the leadership was lost with the append")',
        _APPENDING,
    ),
    _replica(
        "closed-means-failed",
        "replica/pending_appends:PendingAppends.end",
        'OutcomeUnknown(f"{self._name}: {why}")',
        'Unavailable(f"{self._name}: {why}")',
        _RULES,
    ),
    # deletion of records
    _replica(
        "retention-below-an-uncommitted-roll",
        "replica/retention:Retention.propose_if_due",
        "tuple(segment for segment in segments if segment.base_index <= group.applied_index)",
        "segments",
        _RULES,
    ),
    _replica(
        "retention-deletes-what-is-compacted",
        "replica/retention:Retention.propose_if_due",
        " or not config.deletes_old_segments",
        "",
        (*_RETENTION, *_CLEANING),
    ),
    _replica(
        "compact-below-an-uncommitted-roll",
        "replica/compaction_marks:CompactionMarks._dirty_segments",
        "newer.base_index > self._group.applied_index or ",
        "",
        _RULES,
    ),
    _replica(
        "compact-what-is-young",
        "replica/compaction_marks:_newest_ms",
        "max(segment.times.max_timestamp, newer.created_ms)",
        "segment.times.max_timestamp",
        _RULES,
    ),
    _replica(
        "tombstones-of-a-new-leader",
        "replica/compaction_marks:CompactionMarks._record_mark",
        "if self._term != self._group.core.term:",
        "if False:",
        _RULES,
    ),
    _replica(
        "tombstones-go-at-once",
        "replica/compaction_marks:CompactionMarks._record_mark",
        "while self._marks and now_ms - self._marks[0][1] >= retention_ms:",
        "while self._marks:",
        _CLEANING,
    ),
    _replica(
        "compact-the-newest-producers",
        "replica/compaction_marks:CompactionMarks._dirty_segments",
        "if not self._producers.is_covered:",
        "if False:",
        (*_CLEANING, "tests/replica/test_producers.py"),
    ),
    # routing
    # appending and retention, alone
    _replica(
        "answer-below-its-own-end",
        "replica/pending_appends:PendingAppends.answer_to_commit",
        "max(self._group.high_watermark, next_offset)",
        "self._group.high_watermark",
        _APPENDING_RULES,
    ),
    _replica(
        "trimmed-append-answered",
        "replica/pending_appends:PendingAppends.answer_pending",
        "first > log.boundary.index and ",
        "",
        _APPENDING_RULES,
    ),
    _replica(
        "lost-append-waits-for-the-next-term",
        "replica/pending_appends:PendingAppends.answer_pending",
        " and core.term == term",
        "",
        _APPENDING_RULES,
    ),
    _replica(
        "caller-that-left-holds-up-others",
        "replica/pending_appends:PendingAppends.answer_pending",
        "            if future.done():\n                continue\n",
        "",
        _APPENDING_RULES,
    ),
    _replica(
        "copy-of-the-first-entry-counts",
        "replica/pending_appends:PendingAppends._count_copies",
        "committed.last_index",
        "committed.first_index",
        _APPENDING_RULES,
    ),
    _replica(
        "fewer-voters-than-copies",
        "replica/pending_appends:PendingAppends._count_copies",
        "len(held) < copies or ",
        "",
        _APPENDING_RULES,
    ),
    _replica(
        "copies-counted-at-the-next-turn",
        "replica/pending_appends:PendingAppends.count_copies",
        "        self._count_copies()\n",
        "        pass\n",
        _APPENDING_RULES,
    ),
    _replica(
        "end-leaves-waiting-copies",
        "replica/pending_appends:PendingAppends.end",
        'self._fail_copies(f"',
        'str(f"',
        _APPENDING_RULES,
    ),
    _replica(
        "learners-make-up-for-voters",
        "replica/pending_appends:PendingAppends.too_few_error",
        " if status.configuration.has_voter(member)",
        "",
        _APPENDING_RULES,
    ),
    _replica(
        "quiesced-group-has-too-few",
        "replica/pending_appends:active_members",
        "each.is_active or status.is_quiesced",
        "each.is_active",
        _APPENDING_RULES,
    ),
    _replica(
        "leader-without-a-vote-counts",
        "replica/pending_appends:_durable_indexes",
        "if status.me in voters:",
        "if True:",
        _APPENDING_RULES,
    ),
    _replica(
        "retention-proposes-twice",
        "replica/retention:Retention.propose_if_due",
        "self._trim is not None or ",
        "",
        _RETENTION_RULES,
    ),
    _replica(
        "retention-after-the-first-never",
        "replica/retention:Retention._on_outcome",
        "self._trim = None",
        "pass",
        _RETENTION_RULES,
    ),
    _replica(
        "retention-without-its-snapshot",
        "replica/retention:Retention.propose_if_due",
        "offset, self._producers.snapshot_index",
        "offset",
        _RETENTION_RULES,
    ),
    _replica(
        "retention-counts-what-it-keeps",
        "replica/retention:Retention.propose_if_due",
        " if segment.next_offset <= offset",
        "",
        _RETENTION_RULES,
    ),
)
