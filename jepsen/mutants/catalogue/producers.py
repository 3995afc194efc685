"""Mutants of idempotent producers (sequences, epochs, snapshots, expiry, ids) and of the produce queue."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_TABLE: Final = ("tests/replica/test_producer_table.py",)
_PRODUCERS: Final = ("tests/replica/test_producers.py",)
_RULES: Final = ("tests/replica/test_producer_rules.py",)
_BOTH: Final = (*_TABLE, *_PRODUCERS)
_QUEUE: Final = ("tests/routing/test_produce_queue.py", "tests/routing/test_sequenced_calls.py")


def _producers(name: str, place: str, old: str, new: str, tests: tuple[str, ...], equivalent: str = "") -> Mutant:
    """Return a mutant at `place`, which is module:function below `raftlog/partitions`."""
    module, _, function = place.partition(":")
    return Mutant(f"producers-{name}", f"raftlog/partitions/{module}.py", function, old, new, tests, equivalent)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # sequences and epochs
    _producers(
        "evicted-producer-goes-on",
        "replica/producers:check_sequence",
        "        if base == 0:\n            return None\n        raise UnknownProducer(",
        "        if True:\n            return None\n        raise UnknownProducer(",
        _BOTH,
    ),
    _producers(
        "zombie-writes",
        "replica/producers:check_sequence",
        "if producer is not None and header.producer_epoch < producer.epoch:",
        "if False:",
        _BOTH,
    ),
    _producers(
        "epoch-begins-anywhere",
        "replica/producers:check_sequence",
        "        if base == 0:\n            return None\n        raise OutOfOrderSequence(",
        "        if True:\n            return None\n        raise OutOfOrderSequence(",
        _BOTH,
    ),
    _producers(
        "longer-batch-is-a-duplicate",
        "replica/producers:check_sequence",
        " and batch.last_sequence == last:",
        ":",
        _BOTH,
    ),
    _producers("sequence-jumps", "replica/producers:check_sequence", "if ahead == 0:", "if ahead <= 1:", _BOTH),
    _producers(
        "half-old-batch-is-old",
        "replica/producers:check_sequence",
        "if (last - expected) % SEQUENCES < SEQUENCES // 2:",
        "if False:",
        _RULES,
    ),
    _producers(
        "short-window",
        "replica/producers:apply_batch",
        "before[-(WINDOW - 1) :]",
        "before[-(WINDOW - 2) :]",
        _BOTH,
    ),
    _producers(
        "window-of-an-old-epoch",
        "replica/producers:apply_batch",
        "producer is None or producer.epoch != header.producer_epoch",
        "producer is None",
        _BOTH,
    ),
    _producers(
        "batch-before-the-first-is-a-duplicate",
        "replica/producers:check_sequence",
        " and is_later(begin, base)",
        " and False",
        _RULES,
    ),
    _producers(
        "sequences-do-not-wrap",
        "replica/producers:last_sequence",
        "(header.base_sequence + header.last_offset_delta) % SEQUENCES",
        "header.base_sequence + header.last_offset_delta",
        _BOTH,
    ),
    _producers(
        "expire-a-newer-epoch",
        "replica/producers:ProducerTable.expire",
        "if producer is not None and producer.epoch <= epoch:",
        "if producer is not None:",
        ("tests/replica/test_producer_rules.py",),
    ),
    _producers(
        "snapshot-hides-what-came-before",
        "replica/producers:ProducerTable.put_below",
        "if known is not None and known.epoch == later.epoch:",
        "if False:",
        _RULES,
    ),
    _producers(
        "snapshot-revives-the-expired",
        "replica/producers:ProducerTable.put_below",
        "self.expire(payload)",
        "pass",
        _BOTH,
    ),
    _producers(
        "pieces-of-two-snapshots",
        "replica/producers:SnapshotRun.take",
        " or roll_index != self._roll_index",
        "",
        _RULES,
    ),
    # judging at the leader
    _producers(
        "judge-before-it-is-loaded",
        "replica/sequence_check:SequenceCheck.can_decide",
        " or not self._state.is_loaded",
        "",
        _PRODUCERS,
    ),
    _producers(
        "deposed-leader-refuses",
        "replica/sequence_check:SequenceCheck._append",
        "self._group.read_index().add_done_callback(partial(self._refuse, error, future))",
        "future.set_exception(error)",
        _PRODUCERS,
    ),
    _producers(
        "duplicate-answered-when-written",
        "replica/sequence_check:SequenceCheck._answer",
        "if acks != ALL:",
        "if True:",
        _PRODUCERS,
    ),
    _producers(
        "duplicate-without-copies",
        "replica/sequence_check:SequenceCheck._answer",
        "if copies and acks == ALL:",
        "if False:",
        _PRODUCERS,
    ),
    _producers(
        "twice-in-one-call",
        "replica/sequence_check:SequenceCheck._find_original",
        "elif producer_id in producers:",
        "elif False:",
        _PRODUCERS,
    ),
    _producers(
        "what-is-ahead-is-forgotten",
        "replica/sequence_check:SequenceCheck.on_delivered",
        "if ahead.last_index == index:",
        "if True:",
        _RULES,
    ),
    _producers(
        "expired-producer-goes-on",
        "replica/sequence_check:SequenceCheck._find_original",
        "is_forgotten=is_expiring or producer_id in table.forgotten",
        "is_forgotten=False",
        ("tests/replica/test_full_producer_table.py",),
    ),
    _producers(
        "evict-who-has-a-batch-in-flight",
        "replica/sequence_check:SequenceCheck._make_room",
        "if not self.is_busy(each) and each not in call.producers",
        "if each not in call.producers",
        ("tests/replica/test_full_producer_table.py",),
    ),
    # the state and its log
    _producers(
        "roll-before-the-run",
        "replica/producer_state:ProducerState.is_covered",
        " and self._at_roll is None",
        "",
        _PRODUCERS,
    ),
    _producers(
        "new-leader-forgets-at-once",
        "replica/expiry:ProducerExpiry.propose_if_due",
        "dict.fromkeys(table, now_ms)",
        "dict.fromkeys(table, 0)",
        _PRODUCERS,
    ),
    _producers(
        "forget-who-was-heard",
        "replica/expiry:ProducerExpiry.propose_if_due",
        "            self._heard_ms[producer_id] = now_ms\n",
        "            self._heard_ms.setdefault(producer_id, 0)\n",
        _PRODUCERS,
    ),
    _producers(
        "forget-who-has-something-on-its-way",
        "replica/expiry:ProducerExpiry._due_producers",
        "elif not self._sequence_check.is_busy(producer_id):",
        "else:",
        _RULES,
    ),
    _producers(
        "trim-takes-the-run",
        "replica/record_deletion:RecordDeletion._may_trim",
        "return self._producers.is_covered or offset < self._group.log.segments.active.base_offset",
        "return True",
        ("tests/replica/test_replica_rules.py",),
    ),
    _producers(
        "retention-takes-the-run",
        "replica/retention:Retention.propose_if_due",
        "if not self._producers.is_covered:",
        "if False:",
        ("tests/replica/test_replica_rules.py",),
    ),
    # ids
    _producers(
        "an-id-given-twice",
        "produce/producer_ids:Producers._take_block",
        "first, first + _BLOCK, self._asked",
        "first, first + _BLOCK + 1, self._asked",
        ("tests/partitions/test_producer_ids.py",),
    ),
    _producers(
        "a-block-given-twice",
        "controller/machine/broker_rules:allocate_producer_ids",
        "cluster.next_producer_id = first + command.count",
        "cluster.next_producer_id = first + command.count - 1",
        ("tests/controller/machine/test_brokers.py", "tests/controller/machine/test_against_model.py"),
    ),
    # the produce queue
    _producers(
        "append-twice-after-unknown",
        "produce/produce_queue:ProduceQueue._may_try_again",
        "return isinstance(error, Unavailable) and not",
        "return isinstance(error, Unavailable | OutcomeUnknown) and not",
        _QUEUE,
    ),
    _producers(
        "unknown-forgotten-when-tried-again",
        "produce/produce_queue:ProduceQueue._fail_one",
        'if pending.maybe_appended is not None and error.outcome != "unknown":',
        "if False:",
        _QUEUE,
    ),
    _producers(
        "unknown-not-noted",
        "produce/produce_queue:ProduceQueue._requeue",
        "pending.maybe_appended = error",
        "pass",
        _QUEUE,
    ),
    _producers(
        "late-means-failed",
        "produce/produce_queue:ProduceQueue._expire",
        "self._fail_late(pending)",
        "self._fail_expired(pending)",
        _QUEUE,
    ),
    _producers(
        "answer-of-another-length",
        "produce/produce_queue:ProduceQueue._on_outcome",
        "if error is None and not flight.is_sequenced and _record_count(done.result()) != flight.count:",
        "if False:",
        _QUEUE,
    ),
    _producers(
        "taken-back-out-of-order",
        "produce/produce_queue:ProduceQueue._requeue",
        "if back and self._queue and self._queue[0].number < back[-1].number:",
        "if False:",
        _QUEUE,
    ),
    _producers(
        "mixed-acknowledgements",
        "produce/produce_queue:ProduceQueue._take_calls",
        "(queue[0].acks == ALL) != (taken[0].acks == ALL) or ",
        "",
        _QUEUE,
    ),
    _producers(
        "overtaken-call-fails",
        "produce/produce_queue:ProduceQueue._may_try_again",
        "return self._follows_pending_call(pending)",
        "return False",
        _QUEUE,
    ),
)
