"""What a partition knows of its idempotent producers, and what follows from it for a batch that wants to be appended.

    a producer     epoch, and its newest batches (at most `WINDOW`), oldest first
    sequences      count a producer's records in this partition from 0; after 2³¹ − 1 comes 0

States are kept as the bytes that a snapshot has of them (docs/FORMATS.md, section 5): a hundred thousand idle producers
cost some ten megabytes. Changed only by what is committed, the same on every replica. Pure.
Source: KIP-98, KIP-360.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from raftlog.errors import (
    DuplicateSequence,
    FormatError,
    OutOfOrderSequence,
    ProducerFenced,
    UnknownProducer,
)
from raftlog.records import BatchHeader
from raftlog.types import Index, Offset

WINDOW: Final = 5
SEQUENCES: Final = 1 << 31
SUBJECT_PRODUCERS: Final = 2
_VERSION: Final = 1
_PIECE_PRODUCERS: Final = 1_000
EXPIRED_MAX: Final = 5_000
"""Producers in one mark."""
_SNAPSHOT: Final = struct.Struct(">BBBIQ")
"""Version, subject, is_last, piece, index of the roll that the run stands behind."""
_COUNT: Final = struct.Struct(">I")
_ID: Final = struct.Struct(">q")
_EXPIRY: Final = struct.Struct(">BI")
_EXPIRED: Final = struct.Struct(">qh")
_STATES: Final = tuple(struct.Struct(">hqB" + "iiq" * count) for count in range(WINDOW + 1))
_COUNT_AT: Final = 10
_STATE_SIZE_MIN: Final = _STATES[0].size


class Written(NamedTuple):
    """A batch that a producer wrote; `offset` is −1 for one that has none yet."""

    base_sequence: int
    last_sequence: int
    offset: int


class Producer(NamedTuple):
    """See the module. `last_timestamp` is that of the newest batch, as its producer says."""

    epoch: int
    last_timestamp: int
    batches: tuple[Written, ...]

    def packed(self) -> bytes:
        """As a snapshot has it, without the id."""
        flat = [number for batch in self.batches for number in batch]
        return _STATES[len(self.batches)].pack(self.epoch, self.last_timestamp, len(self.batches), *flat)


def unpacked(state: bytes) -> Producer:
    """The inverse of `packed`."""
    epoch, last_timestamp, count, *flat = _STATES[state[_COUNT_AT]].unpack(state)
    return Producer(epoch, last_timestamp, tuple(Written(*flat[at : at + 3]) for at in range(0, 3 * count, 3)))


def last_sequence(header: BatchHeader) -> int:
    """Of the batch's last record."""
    return (header.base_sequence + header.last_offset_delta) % SEQUENCES


def judged(name: str, producer: Producer | None, header: BatchHeader) -> Written | None:
    """None: the batch follows, and is to be appended. Otherwise the batch of the window that it repeats.

    Raises `ProducerFenced`, `UnknownProducer`, `OutOfOrderSequence` (nothing was appended) and `DuplicateSequence`.
    """
    base, who = header.base_sequence, f"{name}: producer {header.producer_id}"
    if producer is None or not producer.batches:
        if base == 0:
            return None
        raise UnknownProducer(
            f"{who} is not known here (any more), and its sequence goes on with {base}: nothing was appended; take "
            "a new producer id"
        )
    if header.producer_epoch < producer.epoch:
        raise ProducerFenced(
            f"{who} wrote with epoch {producer.epoch}, and this batch has epoch {header.producer_epoch}: nothing was "
            "appended"
        )
    if header.producer_epoch > producer.epoch:
        if base == 0:
            return None
        raise OutOfOrderSequence(
            f"{who} begins its epoch {header.producer_epoch} with sequence {base}: nothing was appended; epochs begin "
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
            f"{who} sent sequence {base} where {expected} follows: what lies between is missing, and nothing was "
            "appended"
        )
    if (last - expected) % SEQUENCES < SEQUENCES // 2:
        raise OutOfOrderSequence(
            f"{who} sent sequences {base} to {last}, of which only those before {expected} were appended, in other "
            "batches: nothing was appended; send what follows"
        )
    raise DuplicateSequence(
        f"{who} sent sequences {base} to {last}, which were appended before sequence {expected}, and none of its last "
        f"{len(producer.batches)} batches is the same: the offsets are not known any more"
    )


def followed(producer: Producer | None, header: BatchHeader, offset: int) -> Producer:
    """The producer once this batch is appended; a newer epoch begins anew."""
    batch = Written(header.base_sequence, last_sequence(header), offset)
    before = () if producer is None or producer.epoch != header.producer_epoch else producer.batches
    return Producer(header.producer_epoch, header.max_timestamp, (*before[-(WINDOW - 1) :], batch))


class ProducerTable:
    """All producers of a partition. Changed by committed entries only, in their order."""

    __slots__ = ("_states",)

    def __init__(self, states: dict[int, bytes] | None = None) -> None:
        self._states = {} if states is None else states

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[int]:
        return iter(self._states)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._states

    def get(self, producer_id: int) -> Producer | None:
        state = self._states.get(producer_id)
        return None if state is None else unpacked(state)

    def append(self, header: BatchHeader, offset: Offset) -> None:
        """A batch is committed at this offset."""
        producer_id = header.producer_id
        self._states[producer_id] = followed(self.get(producer_id), header, offset).packed()

    def expire(self, payload: bytes) -> None:
        """An `expire_producers` entry is committed. Raises `FormatError`."""
        for producer_id, epoch in expired_of(payload):
            producer = self.get(producer_id)
            if producer is not None and producer.epoch <= epoch:
                del self._states[producer_id]

    def copy(self) -> "ProducerTable":
        """The table as it is now."""
        return ProducerTable(self._states.copy())

    def put_below(self, earlier: "ProducerTable", expired: Mapping[int, int]) -> None:
        """This table began empty, and goes on from `earlier`, of which `expired` are forgotten up to their epochs."""
        since, self._states = self._states, earlier._states.copy()
        for producer_id, epoch in expired.items():
            known = self.get(producer_id)
            if known is not None and known.epoch <= epoch:
                del self._states[producer_id]
        for producer_id, state in since.items():
            known, later = self.get(producer_id), unpacked(state)
            if known is not None and known.epoch == later.epoch:
                later = later._replace(batches=(*known.batches, *later.batches)[-WINDOW:])
            self._states[producer_id] = later.packed()

    def snapshot(self, roll_index: Index) -> Iterator[bytes]:
        """The payloads of a run of `snapshot` entries behind this roll, at least one."""
        ids = list(self._states)
        for piece, at in enumerate(range(0, max(1, len(ids)), _PIECE_PRODUCERS)):
            some = ids[at : at + _PIECE_PRODUCERS]
            is_last = at + _PIECE_PRODUCERS >= len(ids)
            head = _SNAPSHOT.pack(_VERSION, SUBJECT_PRODUCERS, is_last, piece, roll_index) + _COUNT.pack(len(some))
            yield head + b"".join([_ID.pack(each) + self._states[each] for each in some])


class SnapshotRun:
    """Puts the pieces of a run together. One that begins replaces one that was not finished."""

    __slots__ = ("_next_piece", "_roll_index", "_states")

    def __init__(self) -> None:
        self._states: dict[int, bytes] = {}
        self._next_piece, self._roll_index = 0, -1

    def take(self, payload: bytes) -> tuple[Index, ProducerTable] | None:
        """After the last piece: which roll the run stands behind, and what was known there. Raises `FormatError`.

        Pieces that do not follow each other are parts of runs that were given up.
        """
        if len(payload) < _SNAPSHOT.size + _COUNT.size:
            raise FormatError(f"a snapshot entry of {len(payload)} bytes has no header")
        version, subject, is_last, piece, roll_index = _SNAPSHOT.unpack_from(payload)
        if version != _VERSION or subject != SUBJECT_PRODUCERS:
            raise FormatError(f"a snapshot entry of version {version} and subject {subject} in a partition's log")
        if piece == 0:
            self._states, self._next_piece, self._roll_index = {}, 0, roll_index
        if piece != self._next_piece or roll_index != self._roll_index:
            self._next_piece = -1
            return None
        self._next_piece += 1
        self._states.update(_producers_of(payload))
        if not is_last:
            return None
        self._next_piece = -1
        return Index(roll_index), ProducerTable(self._states)


def _producers_of(payload: bytes) -> Iterator[tuple[int, bytes]]:
    position = _SNAPSHOT.size
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
        yield producer_id, payload[position : position + size]
        position += size
    if position != len(payload):
        raise FormatError(f"a snapshot of producers has {len(payload)} bytes, of which {position} are read")


def encode_expired(producers: Iterable[tuple[int, int]]) -> bytes:
    """The payload of an `expire_producers` entry: ids, and the epochs up to which they are forgotten."""
    some = list(producers)
    assert len(some) <= EXPIRED_MAX, f"{len(some)} producers in one mark"
    return _EXPIRY.pack(_VERSION, len(some)) + b"".join(_EXPIRED.pack(*each) for each in some)


def expired_of(payload: bytes) -> Iterator[tuple[int, int]]:
    """The inverse; raises `FormatError`."""
    if len(payload) < _EXPIRY.size or payload[0] != _VERSION:
        raise FormatError(f"an expire_producers entry of {len(payload)} bytes that this version cannot read")
    _, count = _EXPIRY.unpack_from(payload)
    if len(payload) != _EXPIRY.size + count * _EXPIRED.size:
        raise FormatError(f"an expire_producers entry of {count} producers has {len(payload)} bytes")
    return _EXPIRED.iter_unpack(payload[_EXPIRY.size :])
