"""Batches as readers of records see them: without markers and, if only committed records count, without aborted ones.

Batches without records take the place of those that are left out, so the offsets of the batches have no holes and a
reader always advances. Of a batch outside of transactions only one byte is examined."""

from collections.abc import Iterable, Sequence
from typing import Final

from raftlog.records.empty import build_empty_batch
from raftlog.records.header import CONTROL_BIT, TRANSACTIONAL_BIT, read_header

_ATTRIBUTES_LOW: Final = 22
_EXAMINED: Final = TRANSACTIONAL_BIT | CONTROL_BIT


def drop_hidden(batches: list[memoryview], aborted: Iterable[tuple[int, int]] = ()) -> list[memoryview]:
    """Return consecutive stored batches without markers and without the batches of aborted transactions.

    `aborted` has the producer id and the first offset of each aborted transaction: the producer's batches from this
    offset up to its next marker are left out."""
    if not any(batch[_ATTRIBUTES_LOW] & _EXAMINED for batch in batches):
        return batches
    begins = sorted(aborted, key=lambda each: each[1])
    found: list[memoryview] = []
    hidden: list[memoryview] = []
    skipped: set[int] = set()
    for batch in batches:
        if batch[_ATTRIBUTES_LOW] & _EXAMINED:
            header = read_header(batch)
            while begins and begins[0][1] <= header.base_offset:
                skipped.add(begins.pop(0)[0])
            if header.is_control:
                skipped.discard(header.producer_id)
            if header.is_control or header.producer_id in skipped:
                hidden.append(batch)
                continue
        if hidden:
            found.append(_build_placeholder(hidden))
            hidden = []
        found.append(batch)
    if hidden:
        found.append(_build_placeholder(hidden))
    return found


def _build_placeholder(hidden: Sequence[memoryview]) -> memoryview:
    """Return a batch without records that covers the offsets of the hidden batches."""
    first, last = read_header(hidden[0]), read_header(hidden[-1])
    return memoryview(build_empty_batch(first.base_offset, last.next_offset, last.leader_epoch))
