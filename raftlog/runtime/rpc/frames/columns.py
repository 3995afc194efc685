"""Columns: numbers of one kind in a byte string, one after another, with a fixed width.

The length of a column is known before it is read, and it can hold only numbers, none below a bound. Any other content
is a `BadFrame`. Requests and answers carry columns."""

import struct
from collections.abc import Sequence
from typing import Any

from raftlog.runtime.rpc.errors import BadFrame

_SIZES = {code: struct.calcsize(f">{code}") for code in "Iiq"}


def pack_numbers(code: str, values: Sequence[int]) -> bytes:
    """Return a column of numbers in the format `code` of `struct`."""
    return struct.pack(f">{len(values)}{code}", *values)


def unpack_numbers(code: str, part: Any, count: int, least: int = 0) -> tuple[int, ...]:
    """Return the `count` numbers of a column, none below `least`; raises `BadFrame`."""
    if type(part) is not bytes or len(part) != count * _SIZES[code]:
        raise BadFrame(f"a column of {count} numbers has the wrong length")
    values = struct.unpack(f">{count}{code}", part)
    if values and min(values) < least:
        raise BadFrame(f"a column with the number {min(values)}, which is below {least}")
    return values
