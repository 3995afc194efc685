"""Interface between the roles of a workload and the client library that executes their requests.

Each method raises a `RaftlogError`. Its outcome may be `failed` only if none of the attempts that the library made was
executed."""

from collections.abc import Awaitable, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import Literal, NamedTuple, Protocol, Self

from jepsen.checkers.history import Value
from raftlog.types import Offset, TopicPartition

ClientName = Literal["http", "librdkafka", "aiokafka", "java"]
CLIENT_NAMES: tuple[ClientName, ...] = ("http", "librdkafka", "aiokafka", "java")


class FoundRecords(Protocol):
    """Interface of a fetch's result: parallel lists of offsets and values, and the leader epochs of batches."""

    place: TopicPartition
    offsets: list[Offset]
    values: list[Value]
    epochs: list[tuple[int, int]]
    next_offset: int


class Fetcher(Protocol):
    """Source of the records of one reader."""

    async def fetch(self, node: int, place: TopicPartition, offset: int, timeout_ms: int) -> FoundRecords:
        """Fetch records from an offset on, and wait for the first ones until the timeout."""
        ...


class LogAccess(Protocol):
    """Interface for reads of partitions, and for committed offsets of groups without members."""

    nodes: list[int]

    @property
    def member_of_commits(self) -> str:
        """Member name of commits in the history; empty if commits only raise offsets."""

    def draw_node(self, random: Random) -> int:
        """Draw the node for a request."""
        ...

    def fetcher(self) -> Fetcher:
        """Return a source of records for one reader."""
        ...

    async def offsets(self, node: int, place: TopicPartition, linearizable: bool, timeout_ms: int) -> tuple[int, int]:
        """Return first and end offset."""
        ...

    async def commit(self, node: int, group: str, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """Commit offsets of the group through `node`."""
        ...

    async def committed(self, node: int, group: str, timeout_ms: int) -> dict[TopicPartition, Offset]:
        """Return the group's committed offsets through `node`; partitions without one are omitted."""
        ...


class KnownOffset(Protocol):
    """Offset of a delivered record."""

    @property
    def offset(self) -> Offset: ...


class RecordProducer(Protocol):
    """Producer of single records, as `raftlog.client.Producer`."""

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> Awaitable[KnownOffset]:
        """Accept a record and return an awaitable of its offset."""
        ...

    async def close(self, timeout_s: float | None = None) -> None:
        """Wait up to `timeout_s` for sent records; the outcome of unanswered ones is unknown."""
        ...


class PlacedRecord(Protocol):
    """Record returned by a poll."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...


class SubscribedConsumer(Protocol):
    """Consumer in a group, with automatic commits."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    async def poll(self, *, timeout_ms: int) -> Sequence[PlacedRecord]:
        """Return records of owned partitions; empty if none arrives within the timeout."""
        ...


class ProducerTimes(NamedTuple):
    """Times of a producer that retries records until their outcome is known."""

    linger_ms: int
    request_timeout_ms: int
    delivery_timeout_ms: int


class OverlappingSender(Protocol):
    """Sender of requests that overlap."""

    not_offered: int
    """Number of requests that were due while no process was free."""

    async def send(self) -> None:
        """Make one request, a write or a read; count it in `not_offered` if no process is free."""
        ...


class GroupMemberRole(Protocol):
    """Group member that reads and commits."""

    async def run(self, until_s: float) -> None:
        """Run until a time of the event loop, in seconds."""
        ...


class Adapter(Protocol):
    """Factory of the roles of a client."""

    @property
    def access(self) -> LogAccess:
        """Access to partitions and to groups without members."""
        ...

    def new_producer(self, random: Random, times: ProducerTimes) -> RecordProducer:
        """Return a producer that retries records until their outcome is known."""
        ...

    def new_consumer(
        self, random: Random, topics: Sequence[str], group: str, session_timeout_ms: int, wait_ms: int
    ) -> SubscribedConsumer:
        """Return a group member with automatic commits.

        `wait_ms` is the longest wait of a fetch."""
        ...

    def new_sender(self) -> OverlappingSender:
        """Return the sender of plain requests, each sent once."""
        ...

    def new_member(self, process: int, joins: int, topics: Mapping[str, int], random: Random) -> GroupMemberRole:
        """Return a group member.

        `joins` is the process number under which the history records its joins, which may overlap with its other
        operations."""
        ...

    async def close(self) -> None:
        """Close all clients that the adapter created, unless their user closes them."""
        ...
