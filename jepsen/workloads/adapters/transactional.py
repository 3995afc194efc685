"""Interface of transactions in client libraries.

A commit may fail with outcome `failed` only if the transaction was aborted."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from jepsen.workloads.adapters.port import PlacedRecord
from raftlog.errors import OutcomeUnknown, Unavailable
from raftlog.types import Offset, TopicPartition


class ChainConsumer(Protocol):
    """Consumer of committed records whose offsets are committed in transactions."""

    async def start(self) -> None:
        """Begin to consume at the committed offsets; call it after the producer's `start`."""
        ...

    async def poll(self, timeout_ms: int) -> Sequence[PlacedRecord]:
        """Return committed records of owned partitions; empty if none arrives within the timeout."""
        ...

    async def stable(self, timeout_ms: int) -> dict[TopicPartition, Offset | None]:
        """Return the committed offsets of owned partitions, without pending ones; empty if the library cannot."""
        ...

    async def close(self) -> None: ...


class TransactionalProducer(Protocol):
    """Producer with a transactional id, for one transaction at a time."""

    async def start(self) -> None:
        """Fence earlier producers of the transactional id, and abort their open transaction."""
        ...

    async def begin(self, consumer: ChainConsumer | None = None) -> None:
        """Begin a transaction, with the consumer whose last records it processes."""
        ...

    async def append(self, place: TopicPartition, value: bytes) -> Offset:
        """Append a record and wait for its delivery."""
        ...

    async def commit_offsets(self, offsets: Mapping[TopicPartition, int], consumer: ChainConsumer) -> None:
        """Add offsets of the consumer's group to the transaction; they are committed with it."""
        ...

    async def commit(self) -> None:
        """Commit the transaction."""
        ...

    async def abort(self) -> None:
        """Abort the transaction."""
        ...

    async def close(self) -> None:
        """Close without ending the open transaction."""
        ...


class TransactionSettings(NamedTuple):
    """Settings of a transactional producer."""

    transactional_id: str
    timeout_ms: int
    request_ms: int


class ChainSettings(NamedTuple):
    """Settings of the consumer of a read-process-write chain: a group member, or the owner of fixed `partitions`."""

    topic: str
    group: str
    partitions: tuple[int, ...]
    session_timeout_ms: int
    records_max: int
    """Largest number of records in a transaction; a library that commits all polled records polls no more."""


class TransactionalLibrary(Protocol):
    """Client library with transactions; create it inside a running event loop."""

    @property
    def names_members(self) -> bool:
        """Whether commits of offsets in transactions name the group member (KIP-447).

        Otherwise the transactional id of a chain must belong to its partitions."""

    def new_producer(self, settings: TransactionSettings) -> TransactionalProducer:
        """Return a producer that `start` connects."""
        ...

    def new_consumer(self, settings: ChainSettings) -> ChainConsumer:
        """Return a consumer that `start` connects."""
        ...

    async def close(self) -> None:
        """Close everything that its producers and consumers shared; their users have closed them."""
        ...


async def abort_after(producer: TransactionalProducer, error: Exception) -> None:
    """Abort the transaction of a producer after a refused commit, then raise `Unavailable`.

    Raises `OutcomeUnknown` if the abort fails."""
    try:
        await producer.abort()
    except Unavailable as failure:
        raise OutcomeUnknown(f"{error}, and the abort failed: {failure}") from error
    raise Unavailable(f"aborted: {error}") from error
