"""Requests and answers of consumer instances. Values only; called by the HTTP face."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from raftlog.types import Buffer, Offset, TopicPartition


class Subscribed(NamedTuple):
    """The topics that an instance reads, sorted; with a pattern those that match it now."""

    topics: Sequence[str]
    pattern: str | None


class RecordPiece(NamedTuple):
    """Records of one partition, from `offset` on and before `end`, in the stored batches that hold them."""

    topic: str
    partition: int
    offset: Offset
    end: Offset
    batches: Sequence[Buffer]


class Moved(NamedTuple):
    """A position that was not in the log any more, or not yet. By the reset policy it went on at `to`; with the policy
    `none` it stays (`to` None), and `at` is −1 when nothing was committed and nobody said where to begin."""

    topic: str
    partition: int
    at: int
    to: int | None
    beginning: Offset
    end: Offset


class PollDelivery(NamedTuple):
    """The answer to a poll. Where `format` is not one that was asked for, nothing was delivered.

    `may_wait_ms`: how much longer the instance would have waited, when only that of the request was over.
    """

    format: str
    pieces: Sequence[RecordPiece] = ()
    moved: Sequence[Moved] = ()
    may_wait_ms: int = 0


class Chosen(NamedTuple):
    """A position that a client chooses: exactly one of these is set."""

    partition: TopicPartition
    offset: int | None = None
    timestamp_ms: int | None = None
    edge: str | None = None
    """`beginning` or `end`."""


class Consumed(NamedTuple):
    """A record that a client says it has consumed."""

    partition: TopicPartition
    offset: int
    metadata: str = ""


class CommitOutcome(NamedTuple):
    """One partition of a commit: the last offset that is consumed, and what is committed, which is the one behind it.

    `error`: it was not taken, because the partition is not the instance's any more; `committed` is then None.
    """

    topic: str
    partition: int
    consumed: int
    committed: int | None
    error: str | None = None


class CommittedHere(NamedTuple):
    """What the group has committed in a partition."""

    topic: str
    partition: int
    offset: int
    metadata: str


# requests at the coordinator, each of the instance that it names first


class InstanceNamed(NamedTuple):
    group: str
    name: str


class CreateInstance(NamedTuple):
    """`settings` by their names, as they are stored."""

    group: str
    name: str
    settings: dict[str, Any]


class Subscribe(NamedTuple):
    """With a pattern no topics."""

    group: str
    name: str
    topics: tuple[str, ...]
    pattern: str | None


class Assign(NamedTuple):
    group: str
    name: str
    partitions: list[TopicPartition]


class Seek(NamedTuple):
    group: str
    name: str
    positions: list[Chosen]


class InstancePoll(NamedTuple):
    """A poll of the same `poll_id` takes the last one back. `formats` that its answer may have."""

    group: str
    name: str
    poll_id: str
    wait_ms: int
    max_bytes: int
    formats: list[str]


class CommitConsumed(NamedTuple):
    """`consumed`: None for all that was delivered."""

    group: str
    name: str
    consumed: list[Consumed] | None
    is_waited_for: bool


class CommittedOf(NamedTuple):
    """`partitions`: None for those that the instance reads."""

    group: str
    name: str
    partitions: list[TopicPartition] | None
