"""Histories as JSON lines, one entry a line, in UTF-8. The functions only convert lines; callers open the files.

    {"time": 9, "process": 3, "type": "ok", "kind": "send", "value": {"partition": …, "values": [7], "offsets": [5]}}

`time` is in nanoseconds; the sequence of an entry is the number of its line, counted from 0. `error` is
omitted if it is empty. `_ENCODERS` defines the form of `value` for each kind; a partition is written `topic/partition`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar, get_args

import orjson

from jepsen.checkers.history import (
    ASSIGN,
    CAS,
    COMMIT,
    COMMITTED,
    HANDLE,
    JOIN,
    LIST,
    NEMESIS,
    POLL,
    READ,
    SEND,
    SUBSCRIBE,
    TOPIC,
    TRIM,
    TXN,
    WRITE,
    Append,
    Assign,
    Consumed,
    Fetched,
    GroupOffsets,
    Handle,
    Kind,
    ListOffsets,
    Membership,
    Nemesis,
    OffsetRange,
    OffsetsRead,
    Op,
    OpType,
    Payload,
    Poll,
    Register,
    Scan,
    Send,
    Sequenced,
    Subscribe,
    Topic,
    Transaction,
    Trim,
)
from raftlog.errors import InvalidArgument
from raftlog.types import Offset, TopicPartition

Line = TypeVar("Line", bound=bytes | str)
# A million entries share these strings, to save memory.
_TYPES: Final[dict[str, OpType]] = {name: name for name in get_args(OpType)}
_KINDS: Final[dict[str, Kind]] = {name: name for name in get_args(Kind)}


def write_lines(ops: Iterable[Op]) -> Iterator[bytes]:
    """Yield each entry as a line with its line feed."""
    return map(encode, ops)


def encode(op: Op) -> bytes:
    """Return an entry as one line of JSON, with its newline. The entry's sequence is not in it."""
    entry: dict[str, Any] = {"time": op.time_ns, "process": op.process, "type": op.type, "kind": op.kind}
    if op.payload is not None:
        entry["value"] = _ENCODERS[op.kind](op.payload)
    if op.error:
        entry["error"] = op.error
    return orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)


def _encode_send(send: Send) -> dict[str, Any]:
    """Return the JSON value of a send; keys and producer sequence are omitted if it has none."""
    fields = {"partition": str(send.partition), "values": send.values, "offsets": send.offsets}
    if send.keys:
        fields["keys"], fields["tombstones"] = send.keys, send.tombstones
    if send.sequenced is not None:
        fields["sequenced"] = tuple(send.sequenced)
    return fields


def _encode_poll(poll: Poll) -> list[Any]:
    """Return the JSON value of a poll: one object for each partition."""
    return [{"partition": str(f.partition), "offsets": f.offsets, "values": f.values} for f in poll.fetched]


def _encode_group(group: GroupOffsets) -> dict[str, Any]:
    """Return the JSON value of committed offsets; member and generation are omitted if the member is unknown."""
    offsets = [(str(partition), offset) for partition, offset in group.offsets]
    by = {"member": group.member, "generation": group.generation} if group.member else {}
    return {"group": group.group, "offsets": offsets, **by}


def _encode_membership(membership: Membership) -> dict[str, Any]:
    """Return the JSON value of a join of a group member."""
    return {**membership._asdict(), "partitions": [str(partition) for partition in membership.partitions]}


def _encode_list(listed: ListOffsets) -> dict[str, Any]:
    """Return the JSON value of listed offsets."""
    ranges = [(str(r.partition), r.start, r.end) for r in listed.ranges]
    return {"ranges": ranges, "linearizable": listed.linearizable}


def _encode_transaction(transaction: Transaction) -> dict[str, Any]:
    """Return the JSON value of a transaction; group and consumed ranges are omitted if it has no group."""
    consumed = [(str(each.partition), each.first, each.end) for each in transaction.consumed]
    by = {"group": transaction.group, "consumed": consumed} if transaction.group else {}
    return {"steps": list(map(_encode_step, transaction.steps)), **by}


def _encode_step(step: Append | Scan | OffsetsRead) -> list[Any]:
    """Return the JSON value of a step of a transaction: a list that begins with the name of the step."""
    match step:
        case Append(partition, value, offset, amount):
            return ["append", str(partition), value, offset, amount]
        case Scan(partition, start, end, offsets, values):
            return ["scan", str(partition), start, end, offsets, values]
        case OffsetsRead(offsets):
            return ["offsets", [(str(partition), offset) for partition, offset in offsets]]


_ENCODERS: Final[dict[str, Callable[[Any], Any]]] = {
    SEND: _encode_send,
    POLL: _encode_poll,
    ASSIGN: lambda assign: [(str(partition), offset) for partition, offset in assign.positions],
    SUBSCRIBE: lambda subscribe: subscribe.topics,
    JOIN: _encode_membership,
    COMMIT: _encode_group,
    COMMITTED: _encode_group,
    HANDLE: lambda handle: {**handle._asdict(), "partition": str(handle.partition)},
    LIST: _encode_list,
    TRIM: lambda trim: (str(trim.partition), trim.start),
    TOPIC: lambda topic: topic._asdict(),
    TXN: _encode_transaction,
    WRITE: lambda write: {"register": write.register, "value": write.value},
    READ: lambda read: {"register": read.register, "value": read.value},
    CAS: lambda cas: {"register": cas.register, "value": cas.value, "expected": cas.expected},
    NEMESIS: lambda nemesis: nemesis.what,
}


def read_lines(lines: Iterable[bytes | str]) -> Iterator[Op]:
    """Yield entries; skip empty lines. Raises `InvalidArgument` with the number of a line (from 1)."""
    return (op for op, _, _ in read_entries(lines))


def read_entries(lines: Iterable[Line]) -> Iterator[tuple[Op, dict[str, Any], Line]]:
    """Yield each operation with the JSON object of its line, which may have further members, and the line itself."""
    decoder = _Decoder()
    sequence = 0
    for number, line in enumerate(lines, 1):
        if line.isspace() or not line:
            continue
        try:
            entry = orjson.loads(line)
            op = decoder.decode(entry, sequence)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InvalidArgument(f"line {number} is not an entry of a history: {error!r}") from error
        yield op, entry, line
        sequence += 1


class _Decoder:
    """Decoder of entries; equal partitions become one object, to save memory."""

    def __init__(self) -> None:
        """Prepare the decoders of payloads by kind of operation."""
        self._partitions: dict[str, TopicPartition] = {}
        self._decoders: dict[str, Callable[[Any], Payload]] = {
            SEND: self._decode_send,
            POLL: self._decode_poll,
            ASSIGN: lambda value: Assign(
                tuple((self._decode_partition(p), _decode_offset(offset)) for p, offset in value)
            ),
            SUBSCRIBE: lambda value: Subscribe(tuple(value)),
            JOIN: self._decode_membership,
            COMMIT: self._decode_group,
            COMMITTED: self._decode_group,
            HANDLE: self._decode_handle,
            LIST: self._decode_list,
            TRIM: lambda value: Trim(self._decode_partition(value[0]), Offset(value[1])),
            TOPIC: lambda value: Topic(value["action"], value["name"], value["topic_id"]),
            TXN: self._decode_transaction,
            WRITE: _decode_register,
            READ: _decode_register,
            CAS: _decode_register,
            NEMESIS: Nemesis,
        }

    def decode(self, entry: dict[str, Any], sequence: int) -> Op:
        """Return the entry of a JSON object; `sequence` is the number of the entry in its history."""
        kind = _KINDS[entry["kind"]]
        value = entry.get("value")
        payload = None if value is None else self._decoders[kind](value)
        return Op(
            sequence, entry["time"], entry["process"], _TYPES[entry["type"]], kind, payload, entry.get("error", "")
        )

    def _decode_partition(self, text: str) -> TopicPartition:
        """Return the partition of "topic/number"; equal texts return the same object."""
        known = self._partitions.get(text)
        if known is None:
            topic, number = text.rsplit("/", 1)
            known = self._partitions[text] = TopicPartition(topic, int(number))
        return known

    def _decode_send(self, value: Any) -> Send:
        """Return the send of a JSON value; keys, tombstones and producer sequence may be omitted."""
        sequenced = value.get("sequenced")
        return Send(
            self._decode_partition(value["partition"]),
            tuple(value["values"]),
            tuple(value["offsets"]),
            tuple(value.get("keys", ())),
            tuple(value.get("tombstones", ())),
            None if sequenced is None else Sequenced(*sequenced),
        )

    def _decode_poll(self, value: Any) -> Poll:
        """Return the poll of a JSON value, a list with an object for each partition."""
        return Poll(
            tuple(
                [
                    Fetched(self._decode_partition(f["partition"]), tuple(f["offsets"]), tuple(f["values"]))
                    for f in value
                ]
            )
        )

    def _decode_group(self, value: Any) -> GroupOffsets:
        """Return the committed offsets of a JSON value; an unknown member is empty, with generation -1."""
        offsets = tuple(
            (self._decode_partition(partition), _decode_offset(offset)) for partition, offset in value["offsets"]
        )
        return GroupOffsets(value["group"], offsets, value.get("member", ""), value.get("generation", -1))

    def _decode_handle(self, value: Any) -> Handle:
        """Return the handler call of a JSON value."""
        place = self._decode_partition(value["partition"])
        return Handle(value["group"], place, value["key"], Offset(value["offset"]), value["value"])

    def _decode_membership(self, value: Any) -> Membership:
        """Return the join of a JSON value."""
        partitions = tuple(map(self._decode_partition, value["partitions"]))
        return Membership(value["group"], value["member"], value["generation"], partitions, value["instance"])

    def _decode_list(self, value: Any) -> ListOffsets:
        """Return the listed offsets of a JSON value."""
        ranges = tuple(
            OffsetRange(self._decode_partition(p), Offset(start), Offset(end)) for p, start, end in value["ranges"]
        )
        return ListOffsets(ranges, bool(value["linearizable"]))

    def _decode_transaction(self, value: Any) -> Transaction:
        """Return the transaction of a JSON value; group and consumed ranges may be omitted."""
        consumed = tuple(
            Consumed(self._decode_partition(partition), Offset(first), Offset(end))
            for partition, first, end in value.get("consumed", ())
        )
        return Transaction(tuple(map(self._decode_step, value["steps"])), value.get("group", ""), consumed)

    def _decode_step(self, step: Any) -> Append | Scan | OffsetsRead:
        """Return the step of a JSON list (`_encode_step`). Raises `ValueError` for another form."""
        match step:
            case ["append", partition, value, offset, amount]:
                return Append(self._decode_partition(partition), value, _decode_offset(offset), amount)
            case ["scan", partition, start, end, offsets, values]:
                return Scan(self._decode_partition(partition), start, end, tuple(offsets), tuple(values))
            case ["offsets", rows]:
                return OffsetsRead(tuple((self._decode_partition(place), _decode_offset(at)) for place, at in rows))
        raise ValueError(f"a step of a transaction cannot be read: {step!r}")


def _decode_register(value: Any) -> Register:
    """Return the register operation of a JSON value."""
    return Register(value["register"], value["value"], value.get("expected"))


def _decode_offset(offset: int | None) -> Offset | None:
    return None if offset is None else Offset(offset)
