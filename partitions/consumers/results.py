"""Requests and answers of consumer instances, as values. Used by the HTTP API."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from raftlog.types import Buffer, Offset, TopicPartition


class SubscribedTopics(NamedTuple):
    """Topics that an instance reads, sorted; with a pattern, the topics that match it now."""

    topics: Sequence[str]
    pattern: str | None


class RecordPiece(NamedTuple):
    """Records of one partition from `offset` to `end` (exclusive), in the stored batches that contain them."""

    topic: str
    partition: int
    offset: Offset
    end: Offset
    batches: Sequence[Buffer]


class MovedPosition(NamedTuple):
    """Position `at` that is not between `beginning` and `end` of the log.

    The reset policy moved it to `to`. With the policy `none` it stays (`to` None); then `at` is −1 if there is no
    committed offset and no chosen position."""

    topic: str
    partition: int
    at: int
    to: int | None
    beginning: Offset
    end: Offset


class PollDelivery(NamedTuple):
    """Answer to a poll; it has no records if the request does not accept its `format`.

    `may_wait_ms`: time for which the instance could wait longer, if only the wait of the request has ended."""

    format: str
    pieces: Sequence[RecordPiece] = ()
    moved: Sequence[MovedPosition] = ()
    may_wait_ms: int = 0


class ChosenPosition(NamedTuple):
    """Position to which a client seeks: exactly one of the fields after `partition` is set."""

    partition: TopicPartition
    offset: int | None = None
    timestamp_ms: int | None = None
    edge: str | None = None
    """Log edge, `beginning` or `end`."""


class ConsumedRecord(NamedTuple):
    """Record that a client reports as consumed."""

    partition: TopicPartition
    offset: int
    metadata: str = ""


class CommitOutcome(NamedTuple):
    """Outcome in one partition: the last consumed offset, and the committed offset, which is the next one.

    `error`: reason of a refusal, because the partition is not assigned to the instance any more; `committed` is then
    None."""

    topic: str
    partition: int
    consumed: int
    committed: int | None
    error: str | None = None


class CommittedPosition(NamedTuple):
    """Committed offset of the group in a partition."""

    topic: str
    partition: int
    offset: int
    metadata: str


# requests to the coordinator; each names its instance first


class InstanceName(NamedTuple):
    """Group and name of an instance."""

    group: str
    name: str


class CreateInstance(NamedTuple):
    """Request to create an instance; `settings` have the names under which they are stored."""

    group: str
    name: str
    settings: dict[str, Any]


class Subscribe(NamedTuple):
    """Request to subscribe by names or by pattern; `topics` is empty with a pattern."""

    group: str
    name: str
    topics: tuple[str, ...]
    pattern: str | None


class Assign(NamedTuple):
    """Request to assign partitions manually."""

    group: str
    name: str
    partitions: list[TopicPartition]


class Seek(NamedTuple):
    """Request to set positions."""

    group: str
    name: str
    positions: list[ChosenPosition]


class InstancePoll(NamedTuple):
    """Poll request; a repetition with the same `poll_id` gets the last answer again.

    `formats`: record formats that the client accepts."""

    group: str
    name: str
    poll_id: str
    wait_ms: int
    max_bytes: int
    formats: list[str]


class CommitConsumed(NamedTuple):
    """Commit request. `consumed` None: all delivered records."""

    group: str
    name: str
    consumed: list[ConsumedRecord] | None
    is_waited_for: bool


class CommittedQuery(NamedTuple):
    """Request for committed offsets. `partitions` None: those that the instance reads."""

    group: str
    name: str
    partitions: list[TopicPartition] | None
