"""Settings of a `Consumer`, checked; its records; and its rebalance listener."""

from collections.abc import Collection, Sequence
from typing import Final, Generic, NamedTuple, TypedDict

from msgspec import Struct
from msgspec.structs import force_setattr

from raftlog.assignors import ASSIGNORS
from raftlog.client.consumers.start_positions import Reset
from raftlog.client.metadata import REFRESH_S
from raftlog.client.serializers import K, V
from raftlog.errors import InvalidArgument, OffsetOutOfRange
from raftlog.types import READ_COMMITTED, IsolationName, Offset, TopicPartition


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """Stored record. `timestamp` is in milliseconds, or -1.

    Key and value are bytes, or the results of the deserializers."""

    topic: str
    partition: int
    offset: Offset
    timestamp: int
    key: K | None
    value: V | None
    headers: list[tuple[str, bytes | None]]


class RebalanceListener:
    """Base of rebalance listeners. All methods are called inside `poll` (or iteration, or `close`), in order."""

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Handle partitions that are read from now on; a `seek` here applies to the first record."""

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Handle partitions that are about to be given up, before the group is rejoined: commits are still accepted."""

    async def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Handle partitions that other members may read already.

        The group rebalanced without this member, and its commits are refused."""

    async def on_reset(self, partition: TopicPartition, error: OffsetOutOfRange, offset: Offset) -> None:
        """Handle a position outside the log; reading continues at `offset`, chosen by `auto_offset_reset`."""


class ConsumerOptions(TypedDict, total=False):
    """Keyword arguments of `Consumer`, except those about the commits of its group."""

    instance_id: str | None
    client_id: str
    auto_offset_reset: Reset
    isolation: IsolationName
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
    """All keyword arguments of `Consumer`, except those that depend on the types of keys and values."""

    group: str | None
    auto_commit: bool
    auto_commit_records: int
    auto_commit_interval_ms: int


_COUNTS: Final = (
    "auto_commit_records",
    "auto_commit_interval_ms",
    "max_poll_records",
    "max_poll_interval_ms",
    "session_timeout_ms",
    "rebalance_timeout_ms",
    "fetch_bytes",
    "fetch_wait_ms",
    "prefetch_bytes",
)


class ConsumerSettings(Struct, frozen=True, kw_only=True):
    """Keyword arguments of `Consumer` with their defaults; docs/CLIENT.md describes each."""

    group: str | None = None
    instance_id: str | None = None
    client_id: str = "raftlog"
    auto_offset_reset: Reset = "earliest"
    isolation: IsolationName = READ_COMMITTED
    auto_commit: bool = True
    auto_commit_records: int = 100
    auto_commit_interval_ms: int = 500
    max_poll_records: int = 100
    max_poll_interval_ms: int = 300_000
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    assignors: Sequence[str] = ("range",)
    fetch_bytes: int = 1024 * 1024
    fetch_wait_ms: int = 5_000
    prefetch_bytes: int = 32 * 1024 * 1024
    metadata_refresh_s: float = REFRESH_S
    give_up_after_s: float | None = 120.0

    @property
    def reads_committed(self) -> bool:
        """Whether only records of committed transactions are returned."""
        return self.isolation == READ_COMMITTED

    def __post_init__(self) -> None:
        """Check the settings; raise `InvalidArgument`."""
        force_setattr(self, "assignors", tuple(self.assignors))  # a copy, which the caller cannot change
        if self.auto_offset_reset not in ("earliest", "latest", "error"):
            raise InvalidArgument(
                f"auto_offset_reset is {self.auto_offset_reset!r}; it can be earliest, latest or error"
            )
        if self.isolation not in ("read_committed", "read_uncommitted"):
            raise InvalidArgument(f"isolation is {self.isolation!r}; it can be read_committed or read_uncommitted")
        unknown = [name for name in self.assignors if name not in ASSIGNORS]
        if unknown or not self.assignors:
            raise InvalidArgument(f"assignors are {', '.join(ASSIGNORS)}, at least one; not {list(self.assignors)}")
        if self.instance_id is not None and self.group is None:
            raise InvalidArgument("an instance_id is that of a static member of a group, and no group was given")
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name} is {getattr(self, name)}; it has to be at least 1")
        if self.metadata_refresh_s <= 0:
            raise InvalidArgument(f"metadata_refresh_s is {self.metadata_refresh_s}; it has to be above 0")
