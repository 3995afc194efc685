"""State of a partition's idempotent producers, and the decisions on their batches.

    a producer     epoch, and its newest batches (at most `WINDOW`), oldest first
    sequences      count a producer's records in this partition from 0; after 2³¹ − 1 comes 0
    a marker       ends a transaction, and makes its producer and epoch known, also without batches

States are kept in the bytes of a snapshot (docs/FORMATS.md, section 5): a hundred thousand idle producers
cost some ten megabytes. Changed only by committed entries, the same on every replica. Pure.
Source: KIP-98, KIP-360."""

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from raftlog.errors import (
    DuplicateSequence,
    FormatError,
    OutOfOrderSequence,
    ProducerFenced,
    UnknownProducer,
)
from raftlog.partitions.replica.expired_ids import NO_IDS, RANGE, RANGES_MAX, ExpiredIds
from raftlog.partitions.replica.transaction_table import ProducerTransaction, TransactionTable, read_rows
from raftlog.records import BatchHeader, MarkerValue
from raftlog.records.header import TRANSACTIONAL_BIT
from raftlog.types import Index, Offset

WINDOW: Final = 5
SEQUENCES: Final = 1 << 31
SUBJECT_PRODUCERS: Final = 2
_VERSION: Final = 1
_PIECE_PRODUCERS: Final = 1_000
EXPIRED_MAX: Final = 5_000
"""Maximum number of producers in one `expire_producers` entry."""
_SNAPSHOT: Final = struct.Struct(">BBBIQ")
"""Version, subject, is_last, piece, index of the roll before the run."""
_COUNT: Final = struct.Struct(">I")
_ID: Final = struct.Struct(">q")
_EXPIRY: Final = struct.Struct(">BI")
_EXPIRED: Final = struct.Struct(">qh")
_STATES: Final = tuple(struct.Struct(">hqB" + "iiq" * count) for count in range(WINDOW + 1))
_HEAD: Final = struct.Struct(">hqB")
_BATCH: Final = struct.Struct(">iiq")
_EPOCH: Final = struct.Struct(">h")
_COUNT_AT: Final = 10
_STATE_SIZE_MIN: Final = _HEAD.size


class WrittenBatch(NamedTuple):
    """Batch of a producer; `offset` is −1 if it has none yet."""

    base_sequence: int
    last_sequence: int
    offset: int


class KnownProducer(NamedTuple):
    """State of a producer. `last_timestamp` is that of its newest batch, by the producer's clock."""

    epoch: int
    last_timestamp: int
    batches: tuple[WrittenBatch, ...]

    def pack(self) -> bytes:
        """Return the bytes of the state in a snapshot, without the id."""
        flat = [number for batch in self.batches for number in batch]
        return _STATES[len(self.batches)].pack(self.epoch, self.last_timestamp, len(self.batches), *flat)


# Every batch of a producer makes these tuples, here without a call of Python code.
_batch_of: Final[Callable[[Iterable[int]], WrittenBatch]] = partial(tuple.__new__, WrittenBatch)
_producer_of: Final[Callable[[tuple[int, int, tuple[WrittenBatch, ...]]], KnownProducer]] = partial(
    tuple.__new__, KnownProducer
)


def unpack_state(state: bytes) -> KnownProducer:
    """Return the state of these bytes, the inverse of `pack`."""
    epoch, last_timestamp, _, *flat = _STATES[state[_COUNT_AT]].unpack(state)
    triples = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return _producer_of((epoch, last_timestamp, tuple(map(_batch_of, triples))))


def last_sequence(header: BatchHeader) -> int:
    """Return the sequence of the batch's last record."""
    return (header.base_sequence + header.last_offset_delta) % SEQUENCES


def is_later(sequence: int, other: int) -> bool:
    """Return whether a sequence comes after another one, which is less than half of all sequences away."""
    return 0 < (sequence - other) % SEQUENCES < SEQUENCES // 2


def check_sequence(
    name: str,
    producer: KnownProducer | None,
    header: BatchHeader,
    *,
    is_forgotten: bool = False,
    any_first_sequence: bool = False,
) -> WrittenBatch | None:
    """Return None for the next batch, which is to be appended; for a duplicate, return the original batch.

    `is_forgotten`: a state of a producer with this id was expired. `any_first_sequence`: a producer without a state
    may begin with any sequence, as at Kafka's brokers, so that a retry can be stored twice. Raises `ProducerFenced`,
    `UnknownProducer`, `OutOfOrderSequence` (nothing was appended) and `DuplicateSequence`, which clients count as a
    success: so it is not raised for sequences before the producer's first batch here, whose state is complete."""
    base, head = header.base_sequence, f"{name}: producer {header.producer_id}"
    if producer is not None and header.producer_epoch < producer.epoch:
        raise ProducerFenced(
            f"{head} wrote with epoch {producer.epoch}, and this batch has epoch {header.producer_epoch}: nothing was "
            "appended"
        )
    if producer is None or not producer.batches:
        if any_first_sequence:
            return None
        if is_forgotten:
            raise UnknownProducer(
                f"{head} was expired here, so a retry of one of its batches could not be distinguished from a new one: "
                f"nothing was appended, sequence {base}; take a new producer id (POST /producers?fresh=true)"
            )
        if base == 0:
            return None
        raise UnknownProducer(
            f"{head} is unknown here (or expired), and its batch begins with sequence {base}: nothing was appended; "
            "take a new producer id"
        )
    if header.producer_epoch > producer.epoch:
        if base == 0:
            return None
        raise OutOfOrderSequence(
            f"{head} begins its epoch {header.producer_epoch} with sequence {base}: nothing was appended; epochs begin "
            "with 0"
        )
    last = last_sequence(header)
    for batch in producer.batches:
        if batch.base_sequence == base and batch.last_sequence == last:
            return batch
    expected = (producer.batches[-1].last_sequence + 1) % SEQUENCES
    ahead = (base - expected) % SEQUENCES
    if ahead == 0:
        return None
    if ahead < SEQUENCES // 2:
        raise OutOfOrderSequence(
            f"{head} sent sequence {base} where {expected} follows: the sequences between are missing, and nothing "
            "was appended"
        )
    if (last - expected) % SEQUENCES < SEQUENCES // 2:
        raise OutOfOrderSequence(
            f"{head} sent sequences {base} to {last}, of which only those before {expected} were appended, in other "
            "batches: nothing was appended; send the following ones"
        )
    begin = producer.batches[0].base_sequence
    if len(producer.batches) < WINDOW and not is_forgotten and is_later(begin, base):
        raise OutOfOrderSequence(
            f"{head} sent sequences {base} to {last} after it had begun with {begin} here: nothing was appended; the "
            "order in this partition is lost"
        )
    raise DuplicateSequence(
        f"{head} sent sequences {base} to {last}, which were appended before sequence {expected}, and none of its last "
        f"{len(producer.batches)} batches is the same: their offsets are unknown"
    )


def apply_batch(producer: KnownProducer | None, header: BatchHeader, offset: int) -> KnownProducer:
    """Return the producer's state after this batch; a newer epoch discards the former batches."""
    batch = _batch_of((header.base_sequence, last_sequence(header), offset))
    before = () if producer is None or producer.epoch != header.producer_epoch else producer.batches
    return _producer_of((header.producer_epoch, header.max_timestamp, (*before[-(WINDOW - 1) :], batch)))


def apply_marker(producer: KnownProducer | None, epoch: int, timestamp: int) -> KnownProducer:
    """Return the producer's state after a marker of this epoch; a newer epoch discards the former batches."""
    before = () if producer is None or producer.epoch != epoch else producer.batches
    return _producer_of((epoch, timestamp, before))


def apply_to_packed(state: bytes, header: BatchHeader, offset: int) -> bytes:
    """Return the result of `apply_batch` for packed states; empty bytes are a producer without a state."""
    if not state or _EPOCH.unpack_from(state)[0] != header.producer_epoch:
        count, before = 0, b""
    else:
        count = min(state[_COUNT_AT], WINDOW - 1)
        before = state[len(state) - count * _BATCH.size :]
    head = _HEAD.pack(header.producer_epoch, header.max_timestamp, count + 1)
    base = header.base_sequence
    return head + before + _BATCH.pack(base, (base + header.last_offset_delta) % SEQUENCES, offset)


class ProducerTable:
    """All producers of a partition, the least recently used first; only committed entries change it, in order."""

    __slots__ = ("_states", "forgotten", "transactions")

    def __init__(
        self,
        states: dict[int, bytes] | None = None,
        forgotten: ExpiredIds = NO_IDS,
        transactions: TransactionTable | None = None,
    ) -> None:
        """Create a table of encoded producer states by id; default: without producers."""
        self._states = {} if states is None else states
        self.forgotten = forgotten
        """Ids that were expired."""
        self.transactions = transactions or TransactionTable()

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[int]:
        return iter(self._states)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._states

    @property
    def is_empty(self) -> bool:
        """Whether a snapshot would have no content."""
        return not self._states and not self.forgotten

    def get(self, producer_id: int) -> KnownProducer | None:
        """Return the state of a producer; None if it is unknown."""
        state = self._states.get(producer_id)
        return None if state is None else unpack_state(state)

    def append(self, header: BatchHeader, offset: Offset) -> None:
        """Apply a batch committed at this offset."""
        producer_id = header.producer_id
        state = self._states.pop(producer_id, b"")
        self._states[producer_id] = apply_to_packed(state, header, offset)
        if header.attributes & TRANSACTIONAL_BIT:
            self.transactions.begin(producer_id, offset)

    def end_transaction(self, header: BatchHeader, marker: MarkerValue) -> None:
        """Apply a committed marker; one of an older epoch than the producer's, which no leader appends, is ignored."""
        producer_id = header.producer_id
        producer = self.get(producer_id)
        if producer is None or producer.epoch <= header.producer_epoch:
            self._states.pop(producer_id, None)
            ended = apply_marker(producer, header.producer_epoch, header.max_timestamp)
            self._states[producer_id] = ended.pack()
            self.transactions.end(producer_id, marker)

    def expire(self, payload: bytes) -> None:
        """Apply a committed `expire_producers` entry. Raises `FormatError`."""
        expired = list(decode_expired(payload))
        for producer_id, epoch in expired:
            producer = self.get(producer_id)
            if producer is not None and producer.epoch <= epoch:
                del self._states[producer_id]
                self.transactions.forget(producer_id)
        self.forgotten = self.forgotten.with_ids(producer_id for producer_id, _ in expired)

    def copy(self) -> "ProducerTable":
        """Return a copy of the table."""
        return ProducerTable(self._states.copy(), self.forgotten, self.transactions.copy())

    def put_below(self, earlier: "ProducerTable", expired: Iterable[bytes]) -> None:
        """Insert the state `earlier`, which precedes all entries of this table; this table began empty.

        `expired` are the payloads of the `expire_producers` entries after `earlier`."""
        since, self._states = self._states, earlier._states.copy()
        later_transactions, self.transactions = self.transactions, earlier.transactions.copy()
        self.forgotten = earlier.forgotten
        for payload in expired:
            self.expire(payload)
        self.transactions.add_later(later_transactions)
        for producer_id, state in since.items():
            known, later = self.get(producer_id), unpack_state(state)
            if known is not None and known.epoch == later.epoch:
                later = later._replace(batches=(*known.batches, *later.batches)[-WINDOW:])
            self._states.pop(producer_id, None)
            self._states[producer_id] = later.pack()

    def snapshot(self, roll_index: Index) -> Iterator[bytes]:
        """Yield the payloads of the `snapshot` entries after this roll, at least one."""
        ids = list(self._states)
        for piece, at in enumerate(range(0, max(1, len(ids)), _PIECE_PRODUCERS)):
            some = ids[at : at + _PIECE_PRODUCERS]
            is_last = at + _PIECE_PRODUCERS >= len(ids)
            head = _SNAPSHOT.pack(_VERSION, SUBJECT_PRODUCERS, is_last, piece, roll_index) + _COUNT.pack(len(some))
            states = b"".join([_ID.pack(each) + self._states[each] for each in some])
            yield head + states + self._added_fields(piece, some)

    def _added_fields(self, piece: int, producers: list[int]) -> bytes:
        """Return the bytes after the producers: the expired ids, in the first piece only, and the transactions."""
        ranges = () if piece else self.forgotten.ranges
        transactions = self.transactions.pack_rows(producers)
        if not ranges and not transactions:
            return b""
        return _COUNT.pack(len(ranges)) + b"".join([RANGE.pack(*each) for each in ranges]) + transactions


class SnapshotRun:
    """Collector of the pieces of a snapshot. A new snapshot replaces an unfinished one."""

    __slots__ = ("_forgotten", "_next_piece", "_roll_index", "_states", "_transactions")

    def __init__(self) -> None:
        self._states: dict[int, bytes] = {}
        self._transactions: list[ProducerTransaction] = []
        self._forgotten = NO_IDS
        self._next_piece, self._roll_index = 0, -1

    def take(self, payload: bytes) -> tuple[Index, ProducerTable] | None:
        """Add a piece; after the last one return the snapshot's roll and the state there, else None.

        Pieces that do not follow each other are parts of abandoned snapshots. Raises `FormatError`."""
        if len(payload) < _SNAPSHOT.size + _COUNT.size:
            raise FormatError(f"a snapshot entry of {len(payload)} bytes has no header")
        version, subject, is_last, piece, roll_index = _SNAPSHOT.unpack_from(payload)
        if version != _VERSION or subject != SUBJECT_PRODUCERS:
            raise FormatError(f"a snapshot entry of version {version} and subject {subject} in a partition's log")
        if piece == 0:
            self._states, self._next_piece, self._roll_index = {}, 0, roll_index
            self._forgotten, self._transactions = NO_IDS, []
        if piece != self._next_piece or roll_index != self._roll_index:
            self._next_piece = -1
            return None
        self._next_piece += 1
        states, position = _read_producers(payload)
        self._states.update(states)
        if position < len(payload):
            ranges, position = _read_ranges(payload, position)
            self._forgotten = ranges if piece == 0 else self._forgotten
        if position < len(payload):
            rows, position = read_rows(payload, position)
            self._transactions += rows
        if position < len(payload):  # fields of later releases follow here
            raise FormatError(
                f"a snapshot of producers has {len(payload) - position} bytes that this release does not know: "
                "run a newer release"
            )
        if not is_last:
            return None
        self._next_piece = -1
        return Index(roll_index), ProducerTable(self._states, self._forgotten, TransactionTable(self._transactions))


def _read_producers(payload: bytes) -> tuple[dict[int, bytes], int]:
    """Return the packed states in a piece by producer id, and the position after them. Raises `FormatError`."""
    states, position = dict[int, bytes](), _SNAPSHOT.size
    [count] = _COUNT.unpack_from(payload, position)
    position += _COUNT.size
    for _ in range(count):
        if position + _ID.size + _STATE_SIZE_MIN > len(payload):
            raise FormatError(f"a snapshot of producers ends within them, after {len(payload)} bytes")
        [producer_id] = _ID.unpack_from(payload, position)
        position += _ID.size
        batches = payload[position + _COUNT_AT]
        if batches > WINDOW:
            raise FormatError(f"a snapshot has {batches} batches of producer {producer_id}")
        size = _STATES[batches].size
        states[producer_id] = payload[position : position + size]
        position += size
    if position > len(payload):
        raise FormatError(f"a snapshot of producers has {len(payload)} bytes, and ends within producer {producer_id}")
    return states, position


def _read_ranges(payload: bytes, position: int) -> tuple[ExpiredIds, int]:
    """Return the ranges of expired ids at `position`, and the position after them. Raises `FormatError`."""
    rest = payload[position:]
    count = _COUNT.unpack_from(rest)[0] if len(rest) >= _COUNT.size else -1
    size = _COUNT.size + count * RANGE.size
    ranges = list(RANGE.iter_unpack(rest[_COUNT.size : size])) if 0 <= count <= RANGES_MAX and len(rest) >= size else []
    borders = [border for pair in ranges for border in pair]
    if len(ranges) != count or borders != sorted(borders):
        raise FormatError(f"a snapshot of producers ends with {len(rest)} bytes that are no ranges of expired ids")
    return ExpiredIds(ranges), position + size


def encode_expired(producers: Iterable[tuple[int, int]]) -> bytes:
    """Return the payload of an `expire_producers` entry: ids, and the epochs up to which they expire."""
    some = list(producers)
    assert len(some) <= EXPIRED_MAX, f"{len(some)} producers in one mark"
    return _EXPIRY.pack(_VERSION, len(some)) + b"".join(_EXPIRED.pack(*each) for each in some)


def decode_expired(payload: bytes) -> Iterator[tuple[int, int]]:
    """Return the ids and epochs in a payload of `encode_expired`. Raises `FormatError`."""
    if len(payload) < _EXPIRY.size or payload[0] != _VERSION:
        raise FormatError(f"an expire_producers entry of {len(payload)} bytes that this release cannot decode")
    _, count = _EXPIRY.unpack_from(payload)
    if len(payload) != _EXPIRY.size + count * _EXPIRED.size:
        raise FormatError(f"an expire_producers entry of {count} producers has {len(payload)} bytes")
    return _EXPIRED.iter_unpack(payload[_EXPIRY.size :])
