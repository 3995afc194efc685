"""Writers of the primitive types of Kafka's protocol, for answers that do not use the schemas.

`PlainWriter` is for versions before the flexible ones, `FlexibleWriter` for compact lengths and tagged fields, of which
none are written. Called by the codecs of hot requests; no I/O."""

from struct import Struct
from typing import Final

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_VARINT_1: Final = 0x80


class PlainWriter:
    """Writer of an answer before the flexible versions; `out` may also be appended to directly."""

    __slots__ = ("out",)

    def __init__(self) -> None:
        self.out = bytearray()

    def count(self, count: int) -> None:
        """Write the number of elements of an array, or the length of bytes."""
        self.out += _INT32.pack(count)

    def null_array(self) -> None:
        """Write a null array."""
        self.out += _INT32.pack(-1)

    def string(self, text: str) -> None:
        """Write a string."""
        data = text.encode()
        self.out += _INT16.pack(len(data))
        self.out += data

    def nullable_string(self, text: str | None) -> None:
        """Write a string or null."""
        if text is None:
            self.out += _INT16.pack(-1)
        else:
            self.string(text)

    def tags(self) -> None:
        """Do nothing, because these versions have no tagged fields."""


class FlexibleWriter(PlainWriter):
    """Writer of an answer in a flexible version."""

    __slots__ = ()

    def count(self, count: int) -> None:
        """Write the number of elements of an array, or the length of bytes."""
        value = count + 1
        while value >= _VARINT_1:
            self.out.append(value & 0x7F | _VARINT_1)
            value >>= 7
        self.out.append(value)

    def null_array(self) -> None:
        """Write a null array."""
        self.out.append(0)

    def string(self, text: str) -> None:
        """Write a string."""
        data = text.encode()
        self.count(len(data))
        self.out += data

    def nullable_string(self, text: str | None) -> None:
        """Write a string or null."""
        if text is None:
            self.out.append(0)
        else:
            self.string(text)

    def tags(self) -> None:
        """Write an empty section of tagged fields."""
        self.out.append(0)
