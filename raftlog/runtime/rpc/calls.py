"""Requests between processes and their answers, as frames.

    CALL      [correlation, timeout in ms, name, header value, sizes]     payload: the pieces, one after another
    ANSWER    [correlation, header value, sizes]                          likewise
    FAILURE   [correlation, error]                                        see `failures`

A reader of an answer ignores additional fields at the end; a request with an unknown field is refused.

`correlation` numbers the requests of a connection. Sizes are four bytes for each piece. A timeout is sent as the
remaining time, never as a clock reading. Large data belongs into the payload, where it is not copied into msgpack.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.runtime.rpc.failures import decode_error, encode_error
from raftlog.runtime.rpc.frames.columns import pack_numbers, unpack_numbers
from raftlog.runtime.rpc.frames.entries import cut_payload
from raftlog.runtime.rpc.frames.frame import HEAD_SIZE, Frame, FrameKind, encode_frame
from raftlog.runtime.rpc.frames.packing import pack_value, unpack_value
from raftlog.types import Buffer

Row = TypeVar("Row", bound=NamedTuple)
_SIZE_BYTES = 4
_NUMBER_MAX = (1 << 63) - 1


class Call(NamedTuple):
    """Request by name. `value` consists of numbers, text, bytes, lists (not tuples) and mappings.

    `timeout_ms` is the remaining time; the server does not begin an operation that it cannot complete in that time."""

    name: str
    value: Any = None
    payload: tuple[Buffer, ...] = ()
    timeout_ms: int = 10_000


class Answer(NamedTuple):
    """Answer to a request; `payload` is the list of pieces that the handler returned."""

    value: Any = None
    payload: tuple[Buffer, ...] = ()


def encode_call(correlation: int, call: Call, config: RpcConfig) -> list[Buffer]:
    """Return the frame of a request. Raises `InvalidArgument` if it cannot be sent, or if no time is left."""
    if call.timeout_ms < 1:
        raise InvalidArgument(f"{call.name} has {call.timeout_ms} ms left; it was not sent")
    head = [correlation, call.timeout_ms, call.name, call.value, _pack_sizes(call.payload)]
    return _encode(FrameKind.CALL, head, call.payload, config)


def decode_call(frame: Frame, config: RpcConfig) -> tuple[int, Call]:
    """Return the correlation number and the request in a frame; raises `BadFrame`."""
    match unpack_value(frame.body, config.list_items_max):
        case [int(correlation), int(timeout_ms), str(name), value, bytes(sizes)] if _is_number(
            correlation
        ) and _is_number(timeout_ms):
            return correlation, Call(name, value, _split_payload(frame.payload, sizes), timeout_ms)
    raise BadFrame("a request that cannot be read")


def encode_answer(correlation: int, answer: Answer, config: RpcConfig) -> list[Buffer]:
    """Return the frame of an answer. Raises `InvalidArgument` if it cannot be sent."""
    return _encode(FrameKind.ANSWER, [correlation, answer.value, _pack_sizes(answer.payload)], answer.payload, config)


def encode_failure(correlation: int, error: RaftlogError, config: RpcConfig) -> list[Buffer]:
    """Return the frame of an error that answers a request."""
    return _encode(FrameKind.FAILURE, [correlation, encode_error(error)], (), config)


def decode_answer(frame: Frame, config: RpcConfig) -> tuple[int, Answer | RaftlogError]:
    """Return the correlation number and the answer or error in a frame; raises `BadFrame`."""
    body = unpack_value(frame.body, config.list_items_max)
    match body:
        case [int(correlation), value, bytes(sizes), *_] if frame.kind is FrameKind.ANSWER and _is_number(correlation):
            return correlation, Answer(value, _split_payload(frame.payload, sizes))
        case [int(correlation), fields, *_] if frame.kind is FrameKind.FAILURE and _is_number(correlation):
            return correlation, decode_error(fields)
    raise BadFrame("an answer that cannot be read")


def row_of(make: type[Row], value: Any) -> Row:
    """Return the named tuple of type `make` that a list in an answer represents; raises `TypeError`.

    Unknown fields at the end are ignored, and missing ones get their defaults. Only answers are read in this way.
    """
    if type(value) is not list:
        raise TypeError(f"a {make.__name__} that is no list")
    return make(*value[: len(make._fields)])


def _is_number(value: int) -> bool:
    """Return whether the value is a number that fits its field."""
    return type(value) is int and 0 <= value <= _NUMBER_MAX


def _encode(kind: FrameKind, head: list[Any], payload: Sequence[Buffer], config: RpcConfig) -> list[Buffer]:
    """Return a frame with `head` as its body. Raises `InvalidArgument` if it is too large."""
    body = pack_value(head, config.header_bytes_max, config.list_items_max)
    size = HEAD_SIZE + len(body) + sum(map(len, payload))
    if size > config.frame_bytes_max:
        raise InvalidArgument(f"a frame of {size} bytes cannot be sent; the bound is {config.frame_bytes_max} bytes")
    return encode_frame(kind, body, payload)


def _pack_sizes(payload: Sequence[Buffer]) -> bytes:
    """Return the sizes of the payload's parts as bytes."""
    return pack_numbers("I", list(map(len, payload)))


def _split_payload(payload: bytes | memoryview, sizes: bytes) -> tuple[Buffer, ...]:
    """Return the pieces of a payload by their packed sizes; raises `BadFrame`."""
    if not sizes and not payload:
        return ()
    return tuple(cut_payload(payload, unpack_numbers("I", sizes, len(sizes) // _SIZE_BYTES)))
