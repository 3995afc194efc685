"""Bugs in the state of a partition: of idempotent producers, of keys under compaction, and of commit fencing."""

from collections.abc import Generator
from typing import Any

from jepsen.planted.bug import PlantedBug
from jepsen.planted.patch import replace_method
from raftlog.partitions.groups.machine import Machine
from raftlog.partitions.replica.expired_ids import NO_IDS, ExpiredIds
from raftlog.partitions.replica.producer_state import ProducerState
from raftlog.partitions.replica.producers import ProducerTable
from raftlog.partitions.replica.sequence_check import SequenceCheck
from raftlog.records import BatchHeader, Record, read_records
from raftlog.storage.compaction import Compaction, CompactionStep
from raftlog.types import Index, Offset

_EXPIRATION_MS = 1_000


def acknowledge_duplicate_early() -> None:
    """Plant a bug: a leader acknowledges a duplicate before the original is committed."""
    answer = SequenceCheck._answer

    def answer_early(self: SequenceCheck, spots: Any, is_duplicate: bool, acks: Any, copies: int, future: Any) -> None:
        """Answer a duplicate as if `acks` were 1."""
        answer(self, spots, is_duplicate, 1 if is_duplicate else acks, copies, future)

    replace_method(SequenceCheck, "_answer", answer_early)


def expire_by_own_clock() -> None:
    """Plant a bug: each replica expires producers by its own clock instead of by an entry of the log."""
    delivered = ProducerState.on_delivered

    def deliver_and_expire(self: ProducerState, first: Index, last: Index) -> None:
        """Apply the entries as usual, then forget producers whose last record is older than `_EXPIRATION_MS`."""
        delivered(self, first, last)
        now_ms = self._group._host.wall_ms()
        kept = {
            producer: self.table._states[producer]
            for producer in self.table
            if (known := self.table.get(producer)) is not None and now_ms - known.last_timestamp < _EXPIRATION_MS
        }
        self.table = ProducerTable(kept)

    replace_method(ProducerState, "on_delivered", deliver_and_expire)


def commit_without_fencing() -> None:
    """Plant a bug: every offset commit is accepted, from any sender in any generation."""

    def accept_commit(self: Machine, *_: object, is_transactional: bool = False) -> None:
        """Accept the offset commit without a check."""
        return

    replace_method(Machine, "check_commit", accept_commit)


def forget_producers_after_trim() -> None:
    """Plant a bug: a replica forgets a producer when the producer's last record is trimmed."""
    delivered = ProducerState.on_delivered

    def deliver_and_forget(self: ProducerState, first: Index, last: Index) -> None:
        """Apply the entries as usual, then forget producers without a batch above the log start offset."""
        delivered(self, first, last)
        start = self._group.log_start_offset
        kept = {
            producer: self.table._states[producer]
            for producer in self.table
            if (known := self.table.get(producer)) is not None and known.batches and known.batches[-1].offset >= start
        }
        self.table = ProducerTable(kept)

    replace_method(ProducerState, "on_delivered", deliver_and_forget)


def append_after_expiry() -> None:
    """Plant a bug: an expired producer id counts as new, so that a retry of its first batch is appended again."""

    def is_never_expired(self: ExpiredIds, producer_id: int) -> bool:
        """Return false, as for an id that has not expired."""
        return False

    replace_method(ExpiredIds, "__contains__", is_never_expired)


def keep_expired_ids_in_memory() -> None:
    """Plant a bug: snapshots omit expired producer ids, so that a restart or a new segment forgets them."""
    added_fields = ProducerTable._added_fields

    def without_expired(self: ProducerTable, piece: int, producers: list[int]) -> bytes:
        """Return the snapshot's fields as if no producer id had expired."""
        expired, self.forgotten = self.forgotten, NO_IDS
        fields = added_fields(self, piece, producers)
        self.forgotten = expired
        return fields

    replace_method(ProducerTable, "_added_fields", without_expired)


def drop_newest_value() -> None:
    """Plant a bug: compaction drops the first record of each batch that keeps several records."""
    flags = Compaction._select_records

    def drop_first_record(
        self: Compaction, header: BatchHeader, batch: memoryview
    ) -> Generator[CompactionStep, None, list[bool]]:
        """Return for each record whether it is kept; of several kept ones the first is dropped."""
        found = yield from flags(self, header, batch)
        if sum(found) > 1:
            found[found.index(True)] = False
        return found

    replace_method(Compaction, "_select_records", drop_first_record)


def resurrect_key() -> None:
    """Plant a bug: the first compaction removes tombstones, although older records of their keys may exist."""
    keys, stays = Compaction._find_keys, Compaction._is_kept

    def keys_without_tombstones(batch: memoryview) -> Generator[CompactionStep, None, dict[bytes, int]]:
        """Return the newest offset of each key of a batch, without keys whose newest record is a tombstone."""
        tombstones = {record.offset for record in read_records(batch) if record.value is None}
        found = yield from keys(batch)
        return {key: offset for key, offset in found.items() if offset not in tombstones}

    def drop_tombstones(self: Compaction, record: Record, is_newest: bool) -> bool:
        """Drop tombstones except at the end of the compacted part; decide for other records as usual."""
        if record.value is None and record.offset < min(self._end, Offset(self._mark - 1)):
            return False
        return stays(self, record, is_newest)

    replace_method(Compaction, "_find_keys", staticmethod(keys_without_tombstones))
    replace_method(Compaction, "_is_kept", drop_tombstones)


BUGS = (
    PlantedBug(
        "acknowledge-duplicate-early",
        "a retry is answered before its original is committed, and both may be lost",
        acknowledge_duplicate_early,
        ("acknowledged-uncommitted", "lost-write"),
        found_within=3,
        level="records",
    ),
    PlantedBug(
        "expire-by-own-clock",
        "replicas forget producers at different entries, by their own clocks",
        expire_by_own_clock,
        ("retry-refused", "duplicate", "answers-differ", "sequence-order"),
        found_within=2,
        level="records",
    ),
    PlantedBug(
        "commit-without-fencing",
        "a member of an older generation commits over what its successor has committed",
        commit_without_fencing,
        ("fenced-commit", "lost-commit"),
        found_within=1,
        level="groups",
    ),
    PlantedBug(
        "forget-producers-after-trim",
        "what a partition knows of its producers goes with their records",
        forget_producers_after_trim,
        ("retry-refused", "duplicate", "answers-differ", "sequence-order"),
        found_within=12,
        level="records",
    ),
    PlantedBug(
        "append-after-expiry",
        "an expired producer's first batch is appended a second time",
        append_after_expiry,
        ("answers-differ", "duplicate"),
        found_within=2,
        level="records",
    ),
    PlantedBug(
        "keep-expired-ids-in-memory",
        "which producers were expired does not stand in snapshots",
        keep_expired_ids_in_memory,
        ("answers-differ", "duplicate"),
        found_within=37,
        level="records",
    ),
    PlantedBug(
        "drop-newest-value",
        "compaction removes the newest record of a key",
        drop_newest_value,
        ("lost-key", "lost-write"),
        found_within=10,
        level="records",
    ),
    PlantedBug(
        "resurrect-key",
        "a tombstone goes before what it removed",
        resurrect_key,
        ("resurrected-key",),
        found_within=1,
        level="records",
    ),
)
