"""Mutants of the expiry of producers by log entries: room, entries in flight, and the state of replicas."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_TABLE: Final = ("tests/replica/test_producer_table.py",)
_STATE: Final = ("tests/replica/test_producer_state.py",)
_EXPIRING: Final = ("tests/replica/test_expiring_producers.py",)
_FULL: Final = ("tests/replica/test_full_producer_table.py", *_EXPIRING)
_RULES: Final = ("tests/replica/test_producers.py", *_FULL)
_IDS: Final = ("tests/partitions/test_producer_ids.py",)


def _expiry(name: str, place: str, old: str, new: str, tests: tuple[str, ...], equivalent: str = "") -> Mutant:
    """Return a mutant at `place`, which is module:function below `raftlog/partitions`."""
    module, _, function = place.partition(":")
    return Mutant(f"expiry-{name}", f"raftlog/partitions/{module}.py", function, old, new, tests, equivalent)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # a new leadership
    _expiry(
        "judge-before-its-own-term",
        "replica/sequence_check:SequenceCheck.can_decide",
        "if group.log.term_at(group.applied_index) != core.term:",
        "if False:",
        _RULES,
    ),
    _expiry(
        "lost-batches-stay-ahead",
        "replica/sequence_check:SequenceCheck.can_decide",
        "self._ahead.clear()",
        "pass",
        _EXPIRING,
    ),
    _expiry(
        "lost-batches-stay-in-order",
        "replica/sequence_check:SequenceCheck.can_decide",
        "self._order.clear()",
        "pass",
        _EXPIRING,
    ),
    _expiry(
        "lost-newcomers-take-room",
        "replica/sequence_check:SequenceCheck.can_decide",
        "self._newcomers.clear()",
        "pass",
        _EXPIRING,
    ),
    _expiry(
        "lost-expiry-goes-on",
        "replica/sequence_check:SequenceCheck.can_decide",
        "self._expiring.clear()",
        "pass",
        _EXPIRING,
    ),
    # room for new producers
    _expiry(
        "one-producer-too-many",
        "replica/sequence_check:SequenceCheck._make_room",
        "if known < self._producers_max:",
        "if known <= self._producers_max:",
        _FULL,
    ),
    _expiry(
        "newcomers-take-no-room",
        "replica/sequence_check:SequenceCheck._make_room",
        " + len(self._newcomers)",
        "",
        _FULL,
    ),
    _expiry(
        "newcomers-of-a-call-take-no-room",
        "replica/sequence_check:SequenceCheck._make_room",
        " + call.newcomers",
        "",
        _FULL,
    ),
    _expiry(
        "expiring-producers-take-room",
        "replica/sequence_check:SequenceCheck._make_room",
        " - len(self._expiring)",
        "",
        _EXPIRING,
    ),
    _expiry(
        "expire-a-producer-of-the-same-call",
        "replica/sequence_check:SequenceCheck._make_room",
        " and each not in call.producers",
        "",
        _EXPIRING,
    ),
    _expiry(
        "expire-the-most-recently-used",
        "replica/sequence_check:SequenceCheck._make_room",
        "for each in table if",
        "for each in reversed(list(table)) if",
        _FULL,
    ),
    _expiry(
        "expire-none-of-a-small-table",
        "replica/sequence_check:SequenceCheck._make_room",
        "max(1, self._producers_max // _EVICTED_PART)",
        "self._producers_max // _EVICTED_PART",
        _FULL,
    ),
    _expiry(
        "expire-more-than-fit-into-an-entry",
        "replica/sequence_check:SequenceCheck._make_room",
        "min(EXPIRED_MAX, max(1, self._producers_max // _EVICTED_PART))",
        "max(1, self._producers_max // _EVICTED_PART)",
        _EXPIRING,
    ),
    # an entry on its way
    _expiry(
        "refused-expiry-makes-room",
        "replica/sequence_check:SequenceCheck.expire",
        "        if mark.done():\n            mark.result()\n",
        "",
        _EXPIRING,
    ),
    _expiry(
        "expiring-producer-writes",
        "replica/sequence_check:SequenceCheck.expire",
        "self._expiring.update((producer_id, mark) for producer_id, _ in producers)",
        "pass",
        _FULL,
    ),
    _expiry(
        "expiry-never-ends",
        "replica/sequence_check:SequenceCheck.expire",
        "mark.add_done_callback(self._drop_mark)",
        "pass",
        _FULL,
    ),
    _expiry(
        "one-expiry-ends-all",
        "replica/sequence_check:SequenceCheck._drop_mark",
        "if other is not mark",
        "if False",
        _EXPIRING,
    ),
    _expiry(
        "expiring-producer-begins-anew",
        "replica/sequence_check:SequenceCheck._find_original",
        "is_expiring or producer_id in table.forgotten",
        "producer_id in table.forgotten",
        _EXPIRING,
    ),
    _expiry(
        "expiring-producer-goes-on",
        "replica/sequence_check:SequenceCheck._find_original",
        "None if is_expiring else producer",
        "producer",
        _FULL,
    ),
    _expiry(
        "expire-a-producer-twice",
        "replica/sequence_check:SequenceCheck.is_busy",
        " or producer_id in self._expiring",
        "",
        _FULL,
    ),
    # the committed entry
    _expiry(
        "expired-ids-forgotten",
        "replica/producers:ProducerTable.expire",
        "self.forgotten = self.forgotten.with_ids(producer_id for producer_id, _ in expired)",
        "pass",
        _TABLE,
    ),
    _expiry(
        "use-does-not-count",
        "replica/producers:ProducerTable.append",
        'self._states.pop(producer_id, b"")',
        'self._states.get(producer_id, b"")',
        _TABLE,
    ),
    _expiry(
        "rolls-forget-expired-ids",
        "replica/producers:ProducerTable.copy",
        "self._states.copy(), self.forgotten",
        "self._states.copy()",
        _TABLE,
    ),
    _expiry(
        "snapshot-without-expired-ids",
        "replica/producers:ProducerTable.put_below",
        "self.forgotten = earlier.forgotten",
        "pass",
        _TABLE,
    ),
    _expiry("largest-gaps-closed", "replica/expired_ids:_merge_ranges", "gaps[:excess]", "gaps[-excess:]", _TABLE),
    _expiry(
        "neighbouring-ids-stay-apart",
        "replica/expired_ids:ExpiredIds.with_ids",
        "joined[-1][1] + 1",
        "joined[-1][1]",
        _TABLE,
    ),
    _expiry(
        "last-id-of-a-range-is-free",
        "replica/expired_ids:ExpiredIds.__contains__",
        "producer_id <= self.ranges[at][1]",
        "producer_id < self.ranges[at][1]",
        _TABLE,
    ),
    _expiry(
        "computed-ids-kept",
        "replica/expired_ids:ExpiredIds.with_ids",
        "each < COMPUTED_PRODUCER_IDS and ",
        "",
        _EXPIRING,
    ),
    # rolls, and reading after a restart
    _expiry(
        "expiry-behind-a-roll-forgotten",
        "replica/producer_state:ProducerState._apply_entry",
        "self._expired.append(entry.payload)",
        "pass",
        _STATE,
    ),
    _expiry(
        "expired-payloads-kept-without-a-run",
        "replica/producer_state:ProducerState._take_roll",
        " and index > 1",
        "",
        _STATE,
    ),
    _expiry(
        "expired-payloads-kept-behind-the-next-roll",
        "replica/producer_state:ProducerState._take_roll",
        "self._expired.clear()",
        "pass",
        _STATE,
    ),
    _expiry(
        "run-of-an-earlier-roll",
        "replica/producer_state:ProducerState._take_piece",
        " or whole[0] != self._roll_index",
        "",
        _STATE,
    ),
    _expiry(
        "read-the-newest-segment-alone",
        "replica/producer_state:ProducerState._begin_reading",
        "segments[-2].base_index if len(segments) > 1 else 0",
        "segments[-1].base_index",
        _STATE,
    ),
    _expiry(
        "read-all-segments",
        "replica/producer_state:ProducerState._begin_reading",
        "segments[-2].base_index if len(segments) > 1 else 0",
        "segments[0].base_index",
        _STATE,
    ),
    # fresh ids
    _expiry(
        "fresh-id-of-the-block-at-hand",
        "produce/producer_ids:Producers.allocate",
        " or (is_fresh and self._block <= asked)",
        "",
        _IDS,
    ),
    _expiry(
        "fresh-id-of-the-block-asked-for-before",
        "produce/producer_ids:Producers.allocate",
        "self._block <= asked",
        "self._block < asked",
        _IDS,
    ),
    _expiry(
        "a-block-for-every-fresh-id", "produce/producer_ids:Producers.allocate", " and self._block <= asked", "", _IDS
    ),
)
