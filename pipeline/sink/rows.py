"""Rows for one topic-partition as columns of equal length, and the digest of a row's content.

The digest of a row is the same in every attempt that writes the row, and equal to that of its stored record. Called by
the task that writes, by its lanes, and by the scan of stored batches. Pure.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Final

DIGEST_SIZE: Final = 16
_RECORD_OVERHEAD: Final = 36
"""Maximum bytes of a record without its key, value and headers."""
_HEADER_OVERHEAD: Final = 10
_FIXED: Final = struct.Struct(">qiii")
_LENGTHS: Final = struct.Struct(">ii")
_NONE: Final = -1
NO_TIME: Final = -1
"""Timestamp of a row without one, until it gets the time at which the write began."""

Headers = list[tuple[str, bytes | None]]
Content = tuple[int, bytes | None, bytes | None, Headers]
"""Content of a row: timestamp in milliseconds, key, value, headers."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as columns of equal length; `timestamps` are in milliseconds."""

    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers]

    @classmethod
    def from_contents(cls, contents: Iterable[Content]) -> "Rows":
        """Return rows of these contents."""
        columns: list[list[Any]] = [list(column) for column in zip(*contents, strict=True)]
        return cls(*columns) if columns else cls([], [], [], [])

    def __len__(self) -> int:
        return len(self.timestamps)

    def contents(self) -> Iterator[Content]:
        """Return an iterator over the contents (timestamp, key, value, headers) of the rows."""
        return zip(self.timestamps, self.keys, self.values, self.headers, strict=True)

    def select(self, numbers: Sequence[int]) -> "Rows":
        """Return the rows with these numbers, in this order."""
        if len(numbers) == len(self):
            return self
        if len(numbers) == 1:
            [number] = numbers
            return self.slice(number, number + 1)
        pick = itemgetter(*numbers)
        return Rows(*(list(pick(column)) for column in self._columns()))

    def slice(self, first: int, end: int) -> "Rows":
        """Return the rows with numbers `[first, end)`."""
        return Rows(*(column[first:end] for column in self._columns()))

    def _columns(self) -> tuple[list[Any], ...]:
        return self.timestamps, self.keys, self.values, self.headers

    def with_default_time(self, ms: int) -> "Rows":
        """Return the rows; those without a timestamp get `ms`."""
        if NO_TIME not in self.timestamps:
            return self
        times = [ms if timestamp == NO_TIME else timestamp for timestamp in self.timestamps]
        return Rows(times, self.keys, self.values, self.headers)

    def extend(self, more: "Rows") -> None:
        """Append the rows of `more`."""
        for column, others in zip(self._columns(), more._columns(), strict=True):
            column.extend(others)

    def sizes(self) -> list[int]:
        """Return an upper bound of the stored size of each row in bytes, before compression."""
        plain = [
            _RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
            for key, value in zip(self.keys, self.values, strict=True)
        ]
        if not any(self.headers):
            return plain
        return [size + _headers_size(headers) for size, headers in zip(plain, self.headers, strict=True)]


def _headers_size(headers: Headers) -> int:
    """Return an upper bound of the stored size of headers in bytes."""
    return sum(4 * len(name) + len(value or b"") + _HEADER_OVERHEAD for name, value in headers)


def digest(content: Content) -> bytes:
    """Return the digest of a record's content, without its offset. It depends on the order of headers.

    Null and empty have different digests."""
    timestamp, key, value, headers = content
    hashed = blake2b(_FIXED.pack(timestamp, _length(key), _length(value), len(headers)), digest_size=DIGEST_SIZE)
    hashed.update(key or b"")
    hashed.update(value or b"")
    for name, held in headers:
        text = name.encode()
        hashed.update(_LENGTHS.pack(len(text), _length(held)) + text + (held or b""))
    return hashed.digest()


def _length(value: bytes | None) -> int:
    """Return the length of a value, -1 for null."""
    return _NONE if value is None else len(value)
