"""History of a test: requests of clients, their times, and their results.

Every operation has an *invocation* and at most one *completion* by the same process: `ok` (it happened), `fail` (it
definitely did not) or `info` (unknown). A process is one logical thread of a client; it has at most one operation under
way, and an invocation without a completion counts as `info`. The order of the entries is the real order of time: an
operation that completed before another was invoked precedes it. An `ok` send is one whose record must never be lost;
an answer under weaker promises (`acks=1`, a relaxed flush policy) is an `info`.

Values are unique per partition, which makes a history decidable. A request whose records have different outcomes is
written as several operations of several processes, one per outcome.

The other modules check histories; `json_lines` reads and writes files. Written by workloads and the
simulator through `Recorder`.

Invariants: `sequence` rises · `time_ns` never falls · `ok` sends have as many offsets as values."""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from raftlog.types import Offset, TopicPartition

OpType = Literal["invoke", "ok", "fail", "info"]
Kind = Literal[
    "send",
    "poll",
    "assign",
    "subscribe",
    "join",
    "commit",
    "committed",
    "handle",
    "list",
    "trim",
    "write",
    "read",
    "cas",
    "topic",
    "txn",
    "crash",
    "nemesis",
]
Value: TypeAlias = int | str

INVOKE: Final = "invoke"
OK: Final = "ok"
FAIL: Final = "fail"
INFO: Final = "info"

SEND: Final = "send"
POLL: Final = "poll"
ASSIGN: Final = "assign"
SUBSCRIBE: Final = "subscribe"
JOIN: Final = "join"
COMMIT: Final = "commit"
COMMITTED: Final = "committed"
HANDLE: Final = "handle"
LIST: Final = "list"
TRIM: Final = "trim"
WRITE: Final = "write"
READ: Final = "read"
CAS: Final = "cas"
TOPIC: Final = "topic"
TXN: Final = "txn"
CRASH: Final = "crash"
NEMESIS: Final = "nemesis"

OPERATOR: Final = "operator"
"""Member name in commits by which an operator resets a group's offsets."""
LONE_KINDS: Final = frozenset((CRASH, NEMESIS))
"""Kinds that are a single entry of type `info`, without a completion."""


class Sequenced(NamedTuple):
    """Producer id, epoch and first sequence number of the values of a send; `sequence` never wraps here.

    Each number of a producer's epoch in a partition belongs to one value, which may be sent repeatedly. A client that
    learns the numbers only from the answer records them only in the `ok`."""

    producer: int
    epoch: int
    sequence: int


class Send(NamedTuple):
    """Values sent to one partition; in an `ok`, `offsets` has one for each value, in other entries it is empty.

    In a compacted partition every value has a key; `tombstones` are the values whose records delete their key. The
    answer to a send that was retried until its outcome was known is one `ok`."""

    partition: TopicPartition
    values: tuple[Value, ...]
    offsets: tuple[Offset, ...] = ()
    keys: tuple[str, ...] = ()
    tombstones: tuple[Value, ...] = ()
    sequenced: Sequenced | None = None


class Fetched(NamedTuple):
    """Records of one partition in the order in which a poll returned them."""

    partition: TopicPartition
    offsets: tuple[Offset, ...]
    values: tuple[Value, ...]


class Poll(NamedTuple):
    """Records that one poll returned; empty in an invocation."""

    fetched: tuple[Fetched, ...] = ()


class Assign(NamedTuple):
    """Partitions that the process reads from now on, with start offsets; with `None` the server chooses the offset."""

    positions: tuple[tuple[TopicPartition, Offset | None], ...]


class Subscribe(NamedTuple):
    """Subscription to topics as a group member: the process's partitions and positions may change at any time."""

    topics: tuple[str, ...]


class Membership(NamedTuple):
    """Join of a group member; the `ok` holds its generation, and the partitions that it owns in it.

    `instance` is the name of a static member; a later member of this name replaces it in the same generation.
    """

    group: str
    member: str
    generation: int = -1
    partitions: tuple[TopicPartition, ...] = ()
    instance: str = ""


class GroupOffsets(NamedTuple):
    """Offsets of a group: to commit (`commit`), or as read (`committed`; `None` for a partition without one).

    A commit with a member and its generation, or with the member `OPERATOR` and no generation (a reset), sets the
    offsets, even to lower ones. A commit without a member only raises them."""

    group: str
    offsets: tuple[tuple[TopicPartition, Offset | None], ...] = ()
    member: str = ""
    generation: int = -1


class Handle(NamedTuple):
    """Call of a group's handler for a record: `ok` when it returned, `info` when it raised or was cancelled."""

    group: str
    partition: TopicPartition
    key: str
    offset: Offset
    value: Value


class OffsetRange(NamedTuple):
    """First offset and end offset (exclusive; the high watermark that clients see) of a partition."""

    partition: TopicPartition
    start: Offset
    end: Offset


class ListOffsets(NamedTuple):
    """Offset ranges that `list` returned; `linearizable` when current offsets were requested."""

    ranges: tuple[OffsetRange, ...] = ()
    linearizable: bool = False


class Trim(NamedTuple):
    """Deletion of the records below `start`; in an `ok`, `start` is the log start afterwards."""

    partition: TopicPartition
    start: Offset


class Register(NamedTuple):
    """Value of a register: to write, read (empty in an invocation), or to write in place of `expected` (`cas`).

    A mismatch of a `cas` is a `fail`. `None` is a register that was never written; values need not be unique."""

    register: str
    value: Value | None = None
    expected: Value | None = None


class Topic(NamedTuple):
    """Creation or deletion of a topic, or a query for it by its name.

    `topic_id` distinguishes successive topics of one name. The `ok` of a creation has it, and the `ok` of a query; it
    is empty if the query found no topic."""

    action: Literal["create", "delete", "find"]
    name: str
    topic_id: str = ""


class Append(NamedTuple):
    """Record that a transaction appended; `offset` is None until it is known.

    A partition can be an account; `amount` is the change of its balance."""

    partition: TopicPartition
    value: Value
    offset: Offset | None = None
    amount: int = 0


class Scan(NamedTuple):
    """All committed records of a partition in `[start, end)`, of which `end` was the read-committed end."""

    partition: TopicPartition
    start: Offset = Offset(0)
    end: Offset = Offset(0)
    offsets: tuple[Offset, ...] = ()
    values: tuple[Value, ...] = ()


class OffsetsRead(NamedTuple):
    """Committed offsets of a transaction's group, read without pending ones; `None` for a partition without one."""

    offsets: tuple[tuple[TopicPartition, Offset | None], ...] = ()


class Consumed(NamedTuple):
    """Offsets `[first, end)` that a transaction consumed; it commits `end` in its group."""

    partition: TopicPartition
    first: Offset
    end: Offset


class Transaction(NamedTuple):
    """Steps of a transaction in order, each complete before the next began, and its consumed offsets.

    An `ok` was committed, a `fail` can never be committed. Reads are checked whatever the outcome.
    """

    steps: tuple[Append | Scan | OffsetsRead, ...]
    group: str = ""
    consumed: tuple[Consumed, ...] = ()

    def appends(self) -> list[Append]:
        """Return the steps that append, in order."""
        return [step for step in self.steps if isinstance(step, Append)]


class Nemesis(NamedTuple):
    """Entry for the begin or end of a fault; ignored by checkers, shown in timelines."""

    what: str


Payload: TypeAlias = (
    Send
    | Poll
    | Assign
    | Subscribe
    | Membership
    | GroupOffsets
    | Handle
    | ListOffsets
    | Trim
    | Register
    | Topic
    | Transaction
    | Nemesis
    | None
)


def incarnation_of(name: str, topic_id: str) -> str:
    """Return the key used in place of a topic's name where topics are deleted and recreated: `name@id`."""
    return f"{name}@{topic_id}"


def name_and_id(partition: TopicPartition) -> tuple[str, str] | None:
    """Return the topic name and topic id of an incarnation's partition; None for any other partition."""
    name, at, topic_id = partition.topic.partition("@")
    return (name, topic_id) if at else None


class Op(NamedTuple):
    """Entry of a history. `time_ns` counts from the beginning of the test; `error` explains a `fail` or `info`."""

    sequence: int
    time_ns: int
    process: int
    type: OpType
    kind: Kind
    payload: Payload = None
    error: str = ""

    def __str__(self) -> str:
        text = f"#{self.sequence} {self.time_ns / 1e9:.6f} s process {self.process} {self.type} {self.kind}"
        return f"{text} {describe(self.payload)}{f' ({self.error})' if self.error else ''}".rstrip()


class Recorder:
    """Writer of a history: numbers each entry, adds its time, and passes it to `sink` (such as a checker's `feed`)."""

    def __init__(self, clock_ns: Callable[[], int], sink: Callable[[Op], object]) -> None:
        self._clock_ns, self._sink = clock_ns, sink
        self._next_sequence = 0

    def invoke(self, process: int, kind: Kind, payload: Payload = None) -> Op:
        """Record that `process` begins an operation; return the entry."""
        return self._record(process, INVOKE, kind, payload, "")

    def ok(self, invocation: Op, payload: Payload = None) -> Op:
        """Record a successful completion; without `payload` it repeats the payload of the invocation."""
        returned = invocation.payload if payload is None else payload
        return self._record(invocation.process, OK, invocation.kind, returned, "")

    def fail(self, invocation: Op, error: str = "", payload: Payload = None) -> Op:
        """Record that an operation definitely did not happen; return the entry.

        The payload is that of the invocation by default."""
        return self._record(invocation.process, FAIL, invocation.kind, payload or invocation.payload, error)

    def info(self, invocation: Op, error: str = "", payload: Payload = None) -> Op:
        """Record that the outcome of an operation is unknown; return the entry.

        The payload is that of the invocation by default."""
        return self._record(invocation.process, INFO, invocation.kind, payload or invocation.payload, error)

    def crash(self, process: int) -> Op:
        """Record that the client of the process crashed; its open operation never completes."""
        return self._record(process, INFO, CRASH, None, "")

    def nemesis(self, event: str) -> Op:
        """Record the begin or end of a fault."""
        return self._record(-1, INFO, NEMESIS, Nemesis(event), "")

    def _record(self, process: int, type_: OpType, kind: Kind, payload: Payload, error: str) -> Op:
        """Create an entry with the next sequence and the present time, pass it to the sink, and return it."""
        op = Op(self._next_sequence, self._clock_ns(), process, type_, kind, payload, error)
        self._next_sequence += 1
        self._sink(op)
        return op


def describe(payload: Payload) -> str:
    """Return the payload of an entry in one line, with long runs of values shortened."""
    if isinstance(payload, Send):
        return _describe_send(payload)
    if isinstance(payload, Poll):
        return ", ".join(
            f"{f.partition} offsets {_describe_run(f.offsets)} values {_describe_run(f.values)}"
            for f in payload.fetched
        )
    if isinstance(payload, Assign):
        return ", ".join(f"{partition} from {_describe_offset(offset)}" for partition, offset in payload.positions)
    if isinstance(payload, Subscribe):
        return ", ".join(payload.topics)
    if isinstance(payload, GroupOffsets):
        by = f" of {payload.member} in generation {payload.generation}" if payload.member else ""
        return f"{payload.group}{by}: " + ", ".join(
            f"{p} at {_describe_offset(offset)}" for p, offset in payload.offsets
        )
    if isinstance(payload, Handle):
        at = f"{payload.partition} offset {payload.offset}"
        return f"{payload.group}: {at} value {payload.value} of key {payload.key}"
    if isinstance(payload, Membership):
        owned = ", ".join(map(str, payload.partitions))
        return f"{payload.group} as {payload.member}, generation {payload.generation}: {owned}"
    if isinstance(payload, Trim):
        return f"{payload.partition} below {payload.start}"
    if isinstance(payload, Topic):
        return f"{payload.action} {payload.name}{f' {payload.topic_id}' if payload.topic_id else ''}"
    if isinstance(payload, Transaction):
        return _describe_transaction(payload)
    if isinstance(payload, Register):
        instead = "" if payload.expected is None else f" instead of {payload.expected!r}"
        return f"{payload.register}: {'nothing' if payload.value is None else repr(payload.value)}{instead}"
    if isinstance(payload, ListOffsets):
        ranges = ", ".join(f"{r.partition} offsets {r.start} to {r.end} (exclusive)" for r in payload.ranges)
        return f"linearizable {ranges}" if payload.linearizable else ranges
    return payload.what if isinstance(payload, Nemesis) else ""


def _describe_send(send: Send) -> str:
    """Return the text of a send: partition, values, keys, offsets and producer sequence, as far as they are known."""
    at = f" at offsets {_describe_run(send.offsets)}" if send.offsets else ""
    keys = f" of keys {_describe_run(send.keys)}" if send.keys else ""
    text = f"{send.partition} values {_describe_run(send.values)}{keys}{at}"
    if send.sequenced is None:
        return text
    producer, epoch, sequence = send.sequenced
    return f"{text} from sequence {sequence} of producer {producer}/{epoch}"


def _describe_transaction(transaction: Transaction) -> str:
    """Return the text of a transaction: its steps, then the ranges of offsets that it consumes."""
    parts = []
    for step in transaction.steps:
        if isinstance(step, Append):
            at = "" if step.offset is None else f" at {step.offset}"
            parts.append(f"append {step.value!r} to {step.partition}{at}")
        elif isinstance(step, Scan):
            parts.append(f"read {step.partition} to {step.end}: {_describe_run(step.values)}")
        else:
            rows = ", ".join(f"{place} at {_describe_offset(offset)}" for place, offset in step.offsets)
            parts.append(f"offsets {rows}")
    parts += [
        f"consume {each.partition} offsets {each.first} to {each.end} as {transaction.group}"
        for each in transaction.consumed
    ]
    return "; ".join(parts)


def _describe_offset(offset: Offset | None) -> str:
    return "none" if offset is None else str(offset)


def _describe_run(items: tuple[Value, ...] | tuple[Offset, ...]) -> str:
    """Return up to six items in full; of more items the first, the last and their number."""
    if len(items) <= 6:
        return ", ".join(map(str, items))
    return f"{items[0]}, {items[1]} … {items[-1]} ({len(items)} of them)"
