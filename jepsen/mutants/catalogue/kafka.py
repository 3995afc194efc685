"""Mutants of the Kafka listener: offsets, epochs and error codes of answers, their order, and ends of long polls."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_PRODUCE: Final = ("tests/kafka/data/test_produce.py",)
_TIMESTAMPS: Final = ("tests/kafka/data/test_timestamps.py",)
_APPLIED: Final = ("tests/kafka/admin/test_applied_changes.py",)
_FETCH: Final = ("tests/kafka/data/test_fetch.py",)
_SESSIONS: Final = ("tests/kafka/data/test_fetch_sessions.py",)
_SESSION_BOUNDS: Final = ("tests/kafka/test_fetch_session_bounds.py",)
_OFFSETS: Final = ("tests/kafka/data/test_offsets.py",)
_METADATA: Final = ("tests/kafka/data/test_metadata.py",)
_THREE: Final = ("tests/kafka/data/test_three_brokers.py",)
_CONNECTION: Final = ("tests/kafka/test_connection.py",)
_COMMITS: Final = ("tests/kafka/groups/test_committed_offsets.py",)
_GROUP_ERRORS: Final = ("tests/kafka/groups/test_group_errors.py",)


def _kafka(name: str, place: str, old: str, new: str, tests: tuple[str, ...], equivalent: str = "") -> Mutant:
    """Return a mutant at `place`, which is module:function below `raftlog`."""
    module, _, function = place.partition(":")
    return Mutant(f"kafka-{name}", f"raftlog/{module}.py", function, old, new, tests, equivalent)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # Produce
    _kafka(
        "base-offset",
        "api/kafka/handlers/data/produce:_outcome_row",
        "outcome.base_offset,",
        "outcome.base_offset + 1,",
        _PRODUCE,
    ),
    _kafka(
        "produce-at-any-replica",
        "partitions/leader/appends:LeaderAppends.begin",
        "if replica is None or not replica.is_leader:",
        "if replica is None:",
        _THREE,
        equivalent="A replica that does not lead refuses the append with the same error; it never forwards it.",
    ),
    _kafka(
        "computed-ids-accepted",
        "partitions/leader/appends:LeaderAppends.begin",
        "if producers and max(producers) >= COMPUTED_PRODUCER_IDS:",
        "if False:",
        _PRODUCE,
    ),
    _kafka(
        "timestamp-before-its-bound",
        "partitions/produce/timestamps:_check",
        "timestamp < now_ms - before:",
        "timestamp < now_ms - 3 * before:",
        _TIMESTAMPS,
    ),
    _kafka(
        "timestamp-of-the-first-record-alone",
        "partitions/produce/timestamps:check_batch_timestamps",
        "for timestamp in (first, last):",
        "for timestamp in (first,):",
        ("tests/partitions/test_broker.py",),
    ),
    # administration
    _kafka(
        "applied-nowhere-else",
        "api/kafka/handlers/applied:_wait_after",
        "if applied.index != before:",
        "if False:",
        _APPLIED,
    ),
    _kafka(
        "applied-at-once",
        "partitions/operations/applied_changes:AppliedChanges._serve",
        "await self._metadata.wait_for_index(Index(index), request.deadline)",
        "pass",
        _APPLIED,
    ),
    # memory
    _kafka(
        "reserve-for-large-frames",
        "api/kafka/incoming_frame:IncomingFrame.take_missing",
        "is_small=self.size <= SMALL_BYTES_MAX",
        "is_small=True",
        _CONNECTION,
    ),
    _kafka(
        "reserve-for-no-frame",
        "api/kafka/incoming_frame:IncomingFrame.take_missing",
        "is_small=self.size <= SMALL_BYTES_MAX",
        "is_small=False",
        _CONNECTION,
    ),
    # Fetch
    _kafka(
        "uncommitted-watermark",
        "partitions/leader/fetch:PartitionsFetch._read",
        "FetchedPartition(batches, end, start,",
        "FetchedPartition(batches, group.log_end_offset, start,",
        _THREE,
    ),
    _kafka(
        "min-bytes",
        "partitions/leader/fetch:PartitionsFetch._is_enough",
        "self._total >= min_bytes",
        "self._total > 0",
        _FETCH,
    ),
    _kafka(
        "first-batch-within-the-limit",
        "partitions/leader/fetch:PartitionsFetch._cut_to_fit",
        "if len(batches[0]) > left and self._total:",
        "if len(batches[0]) > left:",
        _FETCH,
    ),
    _kafka(
        "behind-the-offset",
        "partitions/leader/fetch:PartitionsFetch._read",
        "replica.read_now(offset, max(1, left), end, self.isolation)",
        "replica.read_now(Offset(offset + 1), max(1, left), end, self.isolation)",
        _FETCH,
    ),
    _kafka(
        "full-partition-waits",
        "partitions/leader/fetch:PartitionsFetch._cut_to_fit",
        "if read_header(batches[-1]).next_offset < end:",
        "if False:",
        _FETCH,
    ),
    _kafka(
        "old-epoch",
        "partitions/leader/fetch:check_epoch",
        "if 0 <= epoch < core.term:",
        "if 0 <= epoch < core.term - 1:",
        (*_FETCH, *_OFFSETS),
    ),
    _kafka(
        "later-epoch",
        "partitions/leader/fetch:check_epoch",
        "if epoch > core.term:",
        "if epoch > core.term + 1:",
        (*_FETCH, *_OFFSETS),
    ),
    _kafka(
        "session-epoch",
        "api/kafka/handlers/data/fetch:FetchHandler._fetch_incrementally",
        "if session.is_busy or session.epoch != message.session_epoch:",
        "if session.is_busy:",
        _SESSIONS,
    ),
    _kafka(
        "session-of-another-principal",
        "api/kafka/fetch_sessions:FetchSessions.find",
        " and session.principal == principal",
        "",
        _SESSIONS,
    ),
    _kafka(
        "session-without-its-bounds",
        "partitions/leader/session_fetch:SessionFetch._take_results",
        "if batches or bounds != self._reported[slot]:",
        "if batches:",
        _SESSIONS,
    ),
    _kafka(
        "session-loses-unread-records",
        "partitions/leader/session_fetch:SessionFetch._take_results",
        "elif request.offset != (end if stable < 0 else stable):",
        "elif request.offset > end:",
        _SESSIONS,
    ),
    _kafka(
        "session-returns-records-once",
        "partitions/leader/session_fetch:SessionFetch._take_results",
        "for slot in returned:",
        "for slot in ():",
        _SESSIONS,
    ),
    _kafka(
        "session-keeps-a-lost-replica",
        "partitions/leader/session_fetch:SessionFetch._take_results",
        "self._release(slot)",
        "pass",
        _SESSIONS,
    ),
    _kafka(
        "session-evicts-a-larger-one",
        "api/kafka/fetch_sessions:FetchSessions._victim",
        "each.size < size",
        "each.size <= size",
        _SESSION_BOUNDS,
    ),
    # offsets and leaders
    _kafka(
        "offset-not-available",
        "api/kafka/handlers/data/offsets:OffsetsHandler.list_offsets",
        "version < _NOT_AVAILABLE_FROM",
        "version <= _NOT_AVAILABLE_FROM",
        _OFFSETS,
    ),
    _kafka(
        "end-of-a-later-epoch",
        "partitions/leader/offsets:LeaderOffsets.end_of_epoch",
        "if not 0 <= asked_epoch <= replica.group.core.term:",
        "if not 0 <= asked_epoch:",
        _OFFSETS,
    ),
    _kafka(
        "epoch-without-leader",
        "api/kafka/handlers/data/metadata:_describe_partition",
        "leader_epoch=partition.leader_epoch if has_leader else _NOTHING,",
        "leader_epoch=partition.leader_epoch,",
        _METADATA,
    ),
    # order of answers
    _kafka(
        "answers-overtake",
        "api/kafka/answer_order:AnswerOrder.take_ready",
        "if not each.is_done or each.is_failed:",
        "if each.is_failed:",
        _CONNECTION,
    ),
    _kafka(
        "pipelined-behind-others",
        "api/kafka/answer_order:AnswerOrder.may_begin",
        "route.is_pipelined and self._is_pipelined",
        "route.is_pipelined",
        _CONNECTION,
    ),
    # groups
    _kafka(
        "earlier-generation",
        "partitions/groups/machine:Machine._current_member",
        "if generation != group.generation:",
        "if generation > group.generation:",
        _COMMITS,
    ),
    _kafka(
        "unknown-commit-refused",
        "api/kafka/handlers/groups/group_errors:group_code",
        'if error.outcome == "unknown":',
        "if False:",
        _GROUP_ERRORS,
    ),
    _kafka(
        "any-coordinator",
        "api/kafka/handlers/groups/group_errors:check_coordinator",
        "if not groups.is_coordinator_of(group):",
        "if False:",
        ("tests/kafka/groups/test_three_brokers.py",),
    ),
)
