"""Columns: one field of many messages, packed together.

The messages of a turn are turned into columns of fixed width, so that packing and unpacking happen inside `zip`, `map`
and `struct` and not message by message. A column knows its length before it is read, and numbers in it cannot be
anything else than numbers: a term is 0 … 2³¹−1, everything else 0 … 2⁶³−1. What does not fit is a `BadFrame`.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, Protocol

from raftlog.raft import EntryId
from raftlog.runtime.rpc.errors import BadFrame

_NOTHING = -1
"""Stands where an optional index is None."""
_FLAGS = (False, True)
_SIZES = {code: struct.calcsize(f">{code}") for code in "HIiq"}


class Column(Protocol):
    """How one field travels, in `parts` byte strings."""

    parts: int

    def pack(self, values: Sequence[Any]) -> list[bytes]: ...

    def unpack(self, parts: Sequence[bytes], count: int) -> Iterable[Any]:
        """`count` values; raises `BadFrame`."""
        ...


def pack_numbers(code: str, values: Sequence[int]) -> bytes:
    return struct.pack(f">{len(values)}{code}", *values)


def unpack_numbers(code: str, part: Any, count: int, least: int = 0) -> tuple[int, ...]:
    """`count` numbers, none below `least`."""
    if type(part) is not bytes or len(part) != count * _SIZES[code]:
        raise BadFrame(f"a column of {count} numbers has the wrong length")
    values = struct.unpack(f">{count}{code}", part)
    if values and min(values) < least:
        raise BadFrame(f"a column with the number {min(values)}, which is below {least}")
    return values


class Number:
    """Whole numbers; `code` is one of `struct`'s: i or q."""

    parts = 1

    def __init__(self, code: str) -> None:
        self._code = code

    def pack(self, values: Sequence[int]) -> list[bytes]:
        return [pack_numbers(self._code, values)]

    def unpack(self, parts: Sequence[bytes], count: int) -> Iterable[int]:
        return unpack_numbers(self._code, parts[0], count)


class OptionalNumber:
    """Whole numbers or None."""

    parts = 1

    def pack(self, values: Sequence[int | None]) -> list[bytes]:
        return [pack_numbers("q", [_NOTHING if value is None else value for value in values])]

    def unpack(self, parts: Sequence[bytes], count: int) -> Iterable[int | None]:
        values = unpack_numbers("q", parts[0], count, _NOTHING)
        return [None if value == _NOTHING else value for value in values]


class Flag:
    """Booleans, a byte each."""

    parts = 1

    def pack(self, values: Sequence[bool]) -> list[bytes]:
        return [bytes(values)]

    def unpack(self, parts: Sequence[bytes], count: int) -> Iterable[bool]:
        part = parts[0]
        if type(part) is not bytes or len(part) != count or (part and max(part) > 1):
            raise BadFrame(f"a column of {count} flags is none")
        return map(_FLAGS.__getitem__, part)


class Identity:
    """Index and term."""

    parts = 2

    def pack(self, values: Sequence[EntryId]) -> list[bytes]:
        indices, terms = zip(*values, strict=True)
        return [pack_numbers("q", indices), pack_numbers("i", terms)]

    def unpack(self, parts: Sequence[bytes], count: int) -> Iterable[EntryId]:
        indices, terms = unpack_numbers("q", parts[0], count), unpack_numbers("i", parts[1], count)
        return rows(EntryId, zip(indices, terms, strict=True))


class OptionalIdentity:
    """Index and term, or None; when all are None, which is the rule, both parts are empty."""

    parts = 2

    def pack(self, values: Sequence[EntryId | None]) -> list[bytes]:
        if values.count(None) == len(values):
            return [b"", b""]
        return _IDENTITY.pack([value or (_NOTHING, 0) for value in values])  # type: ignore[misc]

    def unpack(self, parts: Sequence[bytes], count: int) -> Iterable[EntryId | None]:
        if not parts[0] and not parts[1]:
            return repeat(None, count)
        indices = unpack_numbers("q", parts[0], count, _NOTHING)
        terms = unpack_numbers("i", parts[1], count)
        identities = rows(EntryId, zip(indices, terms, strict=True))
        return [None if identity.index == _NOTHING else identity for identity in identities]


def rows(row_type: Any, values: Iterable[tuple[Any, ...]]) -> Iterable[Any]:
    """Named tuples of `row_type`, from plain ones of the right length; without a Python call for each."""
    return map(tuple.__new__, repeat(row_type), values)


_IDENTITY = Identity()
