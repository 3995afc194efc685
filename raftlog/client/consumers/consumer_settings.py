"""What a `Consumer` can be told, checked; what it hands out; and what it tells of rebalances."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypedDict

from raftlog.assignors import ASSIGNORS
from raftlog.client.consumers.start_positions import Reset
from raftlog.client.serializers import K, V
from raftlog.errors import InvalidArgument, OffsetOutOfRange
from raftlog.types import Offset, TopicPartition


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """A stored record. `timestamp` is in milliseconds, -1 when it has none. Key and value are bytes, or what the
    deserializers made of them."""

    topic: str
    partition: int
    offset: Offset
    timestamp: int
    key: K | None
    value: V | None
    headers: list[tuple[str, bytes | None]]


class RebalanceListener:
    """Override what is of interest. All are called inside `poll` (or iteration, or `close`), one after another."""

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """These are read from now on; a `seek` here counts before the first record."""

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """These are about to be given away, before the group is joined again: commits are still taken."""

    async def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Others may read these already: the group went on without this member, and its commits are refused."""

    async def on_reset(self, partition: TopicPartition, error: OffsetOutOfRange, offset: Offset) -> None:
        """The position was outside the log; reading goes on at `offset`, as `auto_offset_reset` wants it."""


class ConsumerOptions(TypedDict, total=False):
    """Keyword arguments of `Consumer` that do not concern its group's commits, for its wrappers."""

    instance_id: str | None
    client_id: str
    auto_offset_reset: Reset
    max_poll_records: int
    max_poll_interval_ms: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    assignors: Sequence[str]
    fetch_bytes: int
    fetch_wait_ms: int
    prefetch_bytes: int
    metadata_refresh_s: float
    give_up_after_s: float | None


class GroupConsumerOptions(ConsumerOptions, total=False):
    """All keyword arguments of `Consumer` but for those that depend on the types of keys and values."""

    group: str | None
    auto_commit: bool
    auto_commit_records: int
    auto_commit_interval_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The keyword arguments of `Consumer`, which has their defaults; docs/CLIENT.md says what each is good for."""

    group: str | None
    instance_id: str | None
    client_id: str
    auto_offset_reset: Reset
    auto_commit: bool
    auto_commit_records: int
    auto_commit_interval_ms: int
    max_poll_records: int
    max_poll_interval_ms: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    assignors: Sequence[str]
    fetch_bytes: int
    fetch_wait_ms: int
    prefetch_bytes: int
    metadata_refresh_s: float
    give_up_after_s: float | None

    def __post_init__(self) -> None:
        """Raises `InvalidArgument`."""
        if self.auto_offset_reset not in ("earliest", "latest", "error"):
            raise InvalidArgument(
                f"auto_offset_reset is {self.auto_offset_reset!r}; it can be earliest, latest or error"
            )
        unknown = [name for name in self.assignors if name not in ASSIGNORS]
        if unknown or not self.assignors:
            raise InvalidArgument(f"assignors are {', '.join(ASSIGNORS)}, at least one; not {list(self.assignors)}")
        if self.instance_id is not None and self.group is None:
            raise InvalidArgument("an instance_id is that of a static member of a group, and no group was given")
        counts = ("auto_commit_records", "auto_commit_interval_ms", "max_poll_records", "max_poll_interval_ms")
        for name in (
            *counts,
            "session_timeout_ms",
            "rebalance_timeout_ms",
            "fetch_bytes",
            "fetch_wait_ms",
            "prefetch_bytes",
        ):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name} is {getattr(self, name)}; it has to be at least 1")
        if self.metadata_refresh_s <= 0:
            raise InvalidArgument(f"metadata_refresh_s is {self.metadata_refresh_s}; it has to be above 0")
