"""Reader of the primitive types of Kafka's protocol from one request.

    0 ≤ position ≤ end,  elements_left ≥ 0

The bytes are not trusted: lengths, counts and varints are checked before anything is allocated, and the elements of
all arrays of one request are bounded together. Bytes after a request are ignored, as in Kafka: librdkafka's Metadata
has one. Only the result of `view` refers to the bytes of the request; other results are copies. Called by `headers`,
`schemas` and the codecs of hot requests; no I/O."""

from struct import Struct
from struct import error as struct_error
from typing import Any, Final
from uuid import UUID

from raftlog.api.kafka.wire.errors import MalformedRequest

ELEMENTS_MAX: Final = 20_000
"""Elements of all arrays and tagged fields of a request together."""
STRING_BYTES_MAX: Final = 32_767
_VARINT_BYTES_MAX: Final = 5
_UUID_BYTES: Final = 16
_UINT32_MAX: Final = (1 << 32) - 1
_INT16, _INT32 = Struct(">h"), Struct(">i")


class RequestReader:
    """Reader of one request from its current position; every method raises `MalformedRequest`."""

    __slots__ = ("data", "elements_left", "end", "position")

    def __init__(self, data: memoryview, position: int = 0) -> None:
        """Read from `data`, beginning at the byte `position`."""
        self.data = data
        self.position = position
        self.end = len(data)
        self.elements_left = ELEMENTS_MAX
        """Elements that further arrays may have."""

    def numbers(self, layout: Struct) -> tuple[Any, ...]:
        """Read the numbers of a fixed-size layout."""
        try:
            found = layout.unpack_from(self.data, self.position)
        except struct_error:
            raise MalformedRequest(f"ends at byte {self.end}, within a number") from None
        self.position += layout.size
        return found

    def int16(self) -> int:
        """Read a signed number of two bytes."""
        return int(self.numbers(_INT16)[0])

    def int32(self) -> int:
        """Read a signed number of four bytes."""
        return int(self.numbers(_INT32)[0])

    def uvarint(self) -> int:
        """Read an unsigned varint of 32 bits."""
        value = shift = 0
        data, position = self.data, self.position
        for byte in data[position : position + _VARINT_BYTES_MAX]:
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > _UINT32_MAX:
                    break
                self.position = position
                return value
            shift += 7
        raise MalformedRequest(f"byte {self.position} begins no varint of 32 bits")

    def view(self, size: int) -> memoryview:
        """Read `size` bytes without copying them."""
        begin = self.position
        if not 0 <= size <= self.end - begin:
            raise MalformedRequest(f"{size} bytes at byte {begin}, but the request has {self.end}")
        self.position = begin + size
        return self.data[begin : begin + size]

    def length(self, *, is_compact: bool) -> int:
        """Read the length of bytes or of an array; -1 means null."""
        return self.uvarint() - 1 if is_compact else self.int32()

    def string(self, *, is_compact: bool, is_nullable: bool = False) -> str | None:
        """Read a string; None for null, if it is nullable."""
        size = self.uvarint() - 1 if is_compact else self.int16()
        if size < 0:
            _check_null(size, "string", is_nullable)
            return None
        if size > STRING_BYTES_MAX:
            raise MalformedRequest(f"a string of {size} bytes")
        try:
            return str(self.view(size), "utf-8")
        except UnicodeDecodeError:
            raise MalformedRequest("a string is not UTF-8") from None

    def byte_string(self, *, is_compact: bool, is_nullable: bool = False) -> bytes | None:
        """Read bytes; None for null, if they are nullable."""
        size = self.length(is_compact=is_compact)
        if size < 0:
            _check_null(size, "bytes", is_nullable)
            return None
        return bytes(self.view(size))

    def uuid(self) -> UUID | None:
        """Read a UUID; None if all of its bytes are zero."""
        raw = bytes(self.view(_UUID_BYTES))
        return UUID(bytes=raw) if any(raw) else None

    def count(self, *, is_compact: bool, is_nullable: bool = False, element_bytes_min: int = 1) -> int | None:
        """Read the number of elements of an array; None for null, if it is nullable."""
        count = self.length(is_compact=is_compact)
        if count < 0:
            _check_null(count, "array", is_nullable)
            return None
        self.take_elements(count, element_bytes_min)
        return count

    def take_elements(self, count: int, element_bytes_min: int) -> None:
        """Check that `count` elements fit into the remaining bytes and into the request's limit of elements."""
        if count * element_bytes_min > self.end - self.position:
            raise MalformedRequest(f"{count} elements in {self.end - self.position} bytes")
        self.elements_left -= count
        if self.elements_left < 0:
            raise MalformedRequest(f"more than {ELEMENTS_MAX} elements")

    def skip_tagged_fields(self) -> None:
        """Skip the section of tagged fields."""
        count = self.uvarint()
        if count:
            self.take_elements(count, 2)
            for _ in range(count):
                self.uvarint()
                self.view(self.uvarint())

    def finish(self) -> None:
        """Raise unless all bytes were read; used for the content of a tagged field."""
        if self.position != self.end:
            raise MalformedRequest(f"{self.end - self.position} bytes follow a tagged field")


def _check_null(size: int, kind: str, is_nullable: bool) -> None:
    """Raise `MalformedRequest` unless a negative length means null, and null is allowed."""
    if size != -1:
        raise MalformedRequest(f"length {size}")
    if not is_nullable:
        raise MalformedRequest(f"null for {kind} that must not be null")
