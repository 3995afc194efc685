"""Interface of adapters of Kafka client libraries, and their common errors.

An adapter uses the library as programs do, and changes nothing in it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from jepsen.workloads.adapters.port import ProducerTimes, RecordProducer, SubscribedConsumer
from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable
from raftlog.types import Offset, TopicPartition

REFUSALS: Final = frozenset((2, 3, 5, 6, 10, 17, 19, 21, 32, 35, 42, 44, 56, 74, 75, 76, 87))
"""Kafka error codes after which a batch is definitely not in the log, if it was sent only once."""
CLOSE_S: Final = 5.0


class ConsumedRecord(NamedTuple):
    """Record that a consumer of a Kafka library returned (`PlacedRecord`)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class DeliveredOffset(NamedTuple):
    """Offset that a producer of a Kafka library returned (`KnownOffset`)."""

    offset: Offset


class MemberIdentity(NamedTuple):
    """Identity under which a member would commit now; generation -1 outside of the group."""

    member: str
    generation: int


class MemberSettings(NamedTuple):
    """Settings of a consumer in a group, without automatic commits."""

    topics: tuple[str, ...]
    group: str
    instance: str | None
    strategy: str
    session_timeout_ms: int
    poll_interval_ms_max: int


OnAssigned = Callable[[MemberIdentity, Sequence[TopicPartition]], None]
"""Called in the event loop after each assignment, with all partitions that the member owns in its generation."""


class AssignedConsumer(Protocol):
    """Consumer with one manually assigned partition at a time, and client of a group without members."""

    async def fetch(self, place: TopicPartition, offset: int, timeout_ms: int) -> Sequence[ConsumedRecord]:
        """Return records of the partition from `offset` on; empty if none arrives within the timeout."""
        ...

    async def offsets(self, place: TopicPartition, timeout_ms: int) -> tuple[int, int]:
        """Return the first offset and the end offset of the partition."""
        ...

    async def commit(self, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """Commit offsets for the group, without a member."""
        ...

    async def committed(self, places: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, Offset]:
        """Return the group's committed offsets; partitions without one are omitted."""
        ...

    async def close(self) -> None: ...


class MemberConsumer(Protocol):
    """Consumer that is a group member."""

    async def start(self) -> None:
        """Subscribe; call it before any other use."""
        ...

    def identity(self) -> MemberIdentity:
        """Return the identity under which the member would commit now."""
        ...

    async def poll(self, timeout_ms: int) -> Sequence[ConsumedRecord]:
        """Return records of owned partitions; empty if none arrives within the timeout."""
        ...

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets under the member's identity."""
        ...

    async def committed(self, places: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, Offset]:
        """Return the group's committed offsets; partitions without one are omitted."""
        ...

    async def close(self) -> None: ...


class PlainSettings(NamedTuple):
    """Settings of a producer that sends each record once."""

    acks: str
    timeout_ms: int
    is_compressed: bool


class KafkaLibrary(Protocol):
    """Kafka client library; create it inside a running event loop."""

    @property
    def can_send_once(self) -> bool:
        """Whether retries can be disabled. If not, plain sends are idempotent, so that no retry is stored twice."""

    @property
    def strategies(self) -> Sequence[str]:
        """Names of assignors; each consumer group uses one."""

    def new_producer(self, times: ProducerTimes) -> RecordProducer:
        """Return a producer that retries each record until its delivery timeout."""
        ...

    def new_plain_producer(self, settings: PlainSettings) -> RecordProducer:
        """Return a producer for plain sends, without retries if `can_send_once`."""
        ...

    def new_assigned(self, group: str, places: Sequence[TopicPartition]) -> AssignedConsumer:
        """Return a reader or, if `group` is not empty, a client for the group's offsets in these partitions."""
        ...

    def new_consumer(
        self, topics: Sequence[str], group: str, session_timeout_ms: int, wait_ms: int
    ) -> SubscribedConsumer:
        """Return a group member with automatic commits.

        `wait_ms` is the longest wait of a fetch."""
        ...

    def new_member(self, settings: MemberSettings, on_assigned: OnAssigned) -> MemberConsumer:
        """Return a consumer that will join a group; `on_assigned` is called after each assignment."""
        ...


def send_error(code: int, text: str, *, was_sent_once: bool) -> RaftlogError:
    """Return the error of a delivery; it is definite if the only attempt was refused."""
    if was_sent_once and code in REFUSALS:
        return Unavailable(text)
    return OutcomeUnknown(text)
