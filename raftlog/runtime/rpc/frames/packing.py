"""Values in msgpack within bounds; the only module of this package that imports it.

A length in a msgpack value is a claim. The library allocates lists for the claimed length, level by level, so
every claim has a bound here that does not depend on the size of the message. Any violation is a `BadFrame`."""

from collections.abc import Sequence
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]  # it has no annotations

from raftlog.errors import InvalidArgument
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.types import Buffer

_ERRORS = (ValueError, TypeError, msgpack.UnpackException)
"""Errors that the library raises for invalid input; `TypeError` is for unhashable keys."""
_UNPACKER_BYTES: Final = 1024


def pack_flat(parts: Sequence[bytes | int]) -> bytes:
    """Pack a list of byte strings and whole numbers."""
    packed: bytes = msgpack.packb(parts)
    return packed


def unpack_flat(body: Buffer, items_max: int) -> list[Any]:
    """Return a list of at most `items_max` byte strings, numbers and nils, without any list or mapping in it.

    Raises `BadFrame`."""
    size = len(body)
    unpacker = msgpack.Unpacker(
        read_size=min(size, _UNPACKER_BYTES) or 1,
        max_buffer_size=size or 1,
        max_array_len=0,
        max_map_len=0,
        max_ext_len=0,
        max_str_len=0,
    )
    try:
        unpacker.feed(body)
        count = unpacker.read_array_header()
        if count > items_max:
            raise BadFrame(f"a list of {count} parts where {items_max} is the most")
        parts = [unpacker.unpack() for _ in range(count)]
    except _ERRORS as error:
        raise BadFrame(f"the body of a frame cannot be read: {type(error).__name__}") from None
    if unpacker.tell() != size:
        raise BadFrame(f"the body of a frame has {size} bytes, of which {unpacker.tell()} are read")
    return parts


def pack_value(value: object, bytes_max: int, items_max: int) -> bytes:
    """Pack a value of numbers, text, bytes, lists and mappings; raises `InvalidArgument` if a receiver would refuse it.

    Tuples and subclasses are refused, because a receiver decodes them as other types (a tuple as a list)."""
    try:
        packed: bytes = msgpack.packb(value, strict_types=True)
        if len(packed) > items_max:
            unpack_value(packed, items_max)  # only then can a list or mapping in the value be too long
    except (ValueError, TypeError, OverflowError, BadFrame) as error:
        raise InvalidArgument(f"a header value cannot be sent: {error}") from None
    if len(packed) > bytes_max:
        raise InvalidArgument(f"a header value of {len(packed)} bytes cannot be sent; the bound is {bytes_max} bytes")
    return packed


def unpack_value(body: Buffer, items_max: int) -> Any:
    """Return the value that `pack_value` packed; raises `BadFrame`."""
    try:
        return msgpack.unpackb(
            body, max_array_len=items_max, max_map_len=items_max, max_ext_len=0, strict_map_key=False
        )
    except _ERRORS as error:
        raise BadFrame(f"the body of a frame cannot be read: {type(error).__name__}") from None
