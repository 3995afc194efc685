"""Checker of replicas: they have equal bytes wherever they have data; a shorter one is a prefix of a longer one.

A stream yields pairs of an ascending number and the bytes of one batch. The number is an offset if only client batches
are compared. With control batches it is an index, because a control batch has the same offset as the batch after it. If
a replica's log starts later, the others are compared from there. Anomaly: `replicas-differ`, with the number and the
first byte that differs.

`compare_streams` reads whole streams in parallel, with one item of each in memory. `ReplicaComparison` receives the
data when replicas commit it, and stores a digest per number until it is trimmed."""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import NamedTuple

from jepsen.checkers.checker import Anomaly
from raftlog.errors import InvalidArgument
from raftlog.records.difference import first_difference
from raftlog.types import Buffer

Item = tuple[int, Buffer]
DIGEST_BYTES = 16


def compare_streams(streams: Mapping[str, Iterable[Item]]) -> Anomaly | None:
    """Return the first difference between the replicas, or None.

    Raises `InvalidArgument` if the numbers of a stream fall."""
    iterators = {name: _check_ascending(name, stream) for name, stream in streams.items()}
    heads = _drop_ended({name: next(iterator, None) for name, iterator in iterators.items()})
    if not heads:
        return None
    start = max(number for number, _ in heads.values())
    heads = _drop_ended({name: _skip_to(start, head, iterators[name]) for name, head in heads.items()})
    while len(heads) > 1:
        names = iter(heads)
        first = next(names)
        for name in names:
            if heads[name] != heads[first]:
                return _describe_difference(first, heads[first], name, heads[name])
        heads = _drop_ended({name: next(iterators[name], None) for name in heads})
    return None


def _check_ascending(name: str, stream: Iterable[Item]) -> Iterator[Item]:
    """Yield the items of a replica unchanged. Raises `InvalidArgument` if their numbers do not ascend."""
    last = -1
    for number, data in stream:
        if number <= last:
            raise InvalidArgument(f"{name}: {number} follows {last}; control batches are compared by their index")
        last = number
        yield number, data


def _drop_ended(heads: Mapping[str, Item | None]) -> dict[str, Item]:
    """Return streams that have not ended."""
    return {name: head for name, head in heads.items() if head is not None}


def _skip_to(start: int, head: Item | None, iterator: Iterator[Item]) -> Item | None:
    """Return the first item numbered `start` or higher, beginning with `head`; None at the end."""
    while head is not None and head[0] < start:
        head = next(iterator, None)
    return head


def _describe_difference(name: str, item: Item, other_name: str, other: Item) -> Anomaly:
    """Return the anomaly of two replicas whose items differ: in their numbers, or in a byte."""
    if item[0] != other[0]:
        text = f"{name} has {item[0]} where {other_name} has {other[0]}"
    else:
        position = first_difference(item[1], other[1])
        sizes = f"{len(item[1])} and {len(other[1])} bytes"
        text = f"{name} and {other_name} differ at {item[0]}: byte {position} of {sizes}"
    return Anomaly("replicas-differ", text)


class KeptDigest(NamedTuple):
    """Digest and size of the first replica's data at a number."""

    replica: str
    digest: bytes
    size: int


class ReplicaComparison:
    """Incremental comparison of replicas: the data fed first for a number is the reference for all others.

    Feed only committed data. It must never change, also on one replica."""

    def __init__(self) -> None:
        self._kept: dict[int, KeptDigest] = {}

    def feed(self, replica: str, number: int, data: Buffer) -> Anomaly | None:
        """Return the anomaly when another replica, or this one earlier, had different data at this number."""
        digest = blake2b(data, digest_size=DIGEST_BYTES).digest()
        kept = self._kept.get(number)
        if kept is None:
            self._kept[number] = KeptDigest(replica, digest, len(data))
        elif kept.digest != digest:
            text = f"{kept.replica} had {kept.size} bytes at {number}, {replica} has other {len(data)} bytes"
            return Anomaly("replicas-differ", text)
        return None

    def trim(self, number: int) -> None:
        """Delete the digests below the number."""
        for old in [known for known in self._kept if known < number]:
            del self._kept[old]
