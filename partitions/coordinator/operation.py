"""Typed operations of coordinators: name, serving function, request and answer, in one line each.

A coordinator in this process gets the request itself. Between brokers request and answer are packed by their types:
values of another shape are refused, and answers may carry fields that are not known here."""

from collections.abc import Awaitable, Callable
from functools import cached_property
from types import ModuleType
from typing import Any, Final, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import astuple

from raftlog.errors import InvalidArgument, OutcomeUnknown, RaftlogError
from raftlog.runtime.rpc.calls import Answer
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.runtime.rpc.failures import decode_error, encode_error
from raftlog.types import Buffer

Q = TypeVar("Q")
A = TypeVar("A")
PACKED_BYTES_MAX: Final = 16 << 20


def _error_to_fields(value: Any) -> Any:
    """Return the packed fields of an error. Raises `TypeError` for a value of another type."""
    if isinstance(value, RaftlogError):
        return encode_error(value)
    raise TypeError(f"{type(value).__name__} cannot be sent between brokers")


def _error_from_fields(kind: type, fields: Any) -> Any:
    """Return the error of packed fields. Raises `ValueError` for a malformed one."""
    assert issubclass(kind, RaftlogError), f"{kind.__name__} cannot be sent between brokers"
    try:
        return decode_error(fields)
    except BadFrame as error:
        raise ValueError(str(error)) from None


def extensible_type(kind: Any) -> Any:
    """Return the type for decoding an answer of tuple types: it ignores unknown fields after the known ones."""
    if _is_row(kind):
        hints, defaults = get_type_hints(kind), kind._field_defaults
        fields = [(name, hints[name], *([defaults[name]] if name in defaults else [])) for name in kind._fields]
        return msgspec.defstruct(kind.__name__, fields, array_like=True)
    *keys, row = get_args(kind) or (None,)
    return get_origin(kind)[*keys, extensible_type(row)] if _is_row(row) else kind


def drop_unknown_fields(kind: Any, value: Any) -> Any:
    """Return an answer of type `kind` from a value that was decoded as `extensible_type(kind)`."""
    if _is_row(kind):
        return kind(*astuple(value))
    row = (get_args(kind) or (None,))[-1]
    if not _is_row(row):
        return value
    if isinstance(value, dict):
        return {key: row(*astuple(each)) for key, each in value.items()}
    return [row(*astuple(each)) for each in value]


def _is_row(kind: Any) -> bool:
    """Return whether a type is a named tuple."""
    return isinstance(kind, type) and hasattr(kind, "_fields")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_error_to_fields, uuid_format="bytes")
_MALFORMED: Final = (msgspec.MsgspecError, RecursionError, ValueError)


class CoordinatorOperation(Generic[Q, A]):
    """Operation that coordinators serve, with its request, answer and retry rule.

    `serve` takes the coordinator, the request and the deadline, after the arguments bound at its registration.
    `is_repeatable`: a request is sent again after a lost answer, which otherwise raises `OutcomeUnknown`.
    `only_reads`: the operation changes nothing, so an error after a lost answer is not `OutcomeUnknown`."""

    def __init__(
        self,
        name: str,
        serve: Callable[..., Awaitable[A]],
        request: type[Q],
        answer: Any = None,
        *,
        is_repeatable: bool = True,
        only_reads: bool = False,
    ) -> None:
        """Describe an operation, which `serve` executes at the coordinator.

        `is_repeatable` is whether it may be sent again after an unknown outcome; `only_reads` is whether it changes
        nothing."""
        self.name, self.serve = name, serve
        self.is_repeatable, self.only_reads = is_repeatable, only_reads
        self._request, self._answer = request, answer

    @cached_property
    def _request_decoder(self) -> "msgspec.msgpack.Decoder[Q]":
        return msgspec.msgpack.Decoder(self._request)

    @cached_property
    def _answer_decoder(self) -> "msgspec.msgpack.Decoder[Any]":
        return msgspec.msgpack.Decoder(extensible_type(self._answer), dec_hook=_error_from_fields)

    def pack_request(self, request: Q) -> bytes:
        """Return the packed request; raise `InvalidArgument` if it cannot be encoded or is too large."""
        return _pack(request)

    def unpack_request(self, packed: Buffer) -> Q:
        """Return the request; raise `InvalidArgument` if it cannot be decoded."""
        try:
            return self._request_decoder.decode(packed)
        except _MALFORMED as error:
            raise InvalidArgument(
                f"the request {self.name!r} cannot be decoded ({error}); check that the other broker runs a compatible "
                "release"
            ) from None

    def pack_answer(self, answer: A) -> Answer:
        """Return the packed answer.

        For one that is too large it raises `InvalidArgument` after a read, and otherwise `OutcomeUnknown`, since the
        operation was carried out."""
        try:
            return Answer(None, (_pack(answer),))
        except InvalidArgument as error:
            if self.only_reads:
                raise
            raise OutcomeUnknown(f"{self.name!r} was carried out, but its answer is too large: {error}") from None

    def unpack_answer(self, answer: Answer) -> A:
        """Return the answer; raise `OutcomeUnknown` if it cannot be decoded."""
        try:
            (piece,) = answer.payload
            answered: A = drop_unknown_fields(self._answer, self._answer_decoder.decode(piece))
            return answered
        except _MALFORMED as error:
            raise OutcomeUnknown(f"another broker's answer to {self.name!r} cannot be decoded: {error}") from None


def operations_of(module: ModuleType) -> list[CoordinatorOperation[Any, Any]]:
    """Return the operations that a module declares, in order."""
    return [each for each in vars(module).values() if isinstance(each, CoordinatorOperation)]


def _pack(value: object) -> bytes:
    """Encode a value for another broker. Raises `InvalidArgument` beyond `PACKED_BYTES_MAX`."""
    try:
        packed = _ENCODER.encode(value)
    except (ValueError, OverflowError) as error:  # lone surrogates, and integers of more than 64 bits
        raise InvalidArgument(f"it cannot be encoded for another broker: {error}") from None
    if len(packed) > PACKED_BYTES_MAX:
        raise InvalidArgument(
            f"{len(packed)} bytes are too many for a message between brokers; the limit is {PACKED_BYTES_MAX}"
        )
    return packed
