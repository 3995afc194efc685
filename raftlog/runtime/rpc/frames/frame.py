"""Frames: the unit of transmission on a connection between processes.

    position  size  field
           0     4  magic "RLOG"
           4     1  version of this layout (2)
           5     1  kind
           6     2  zero
           8     4  body length: one msgpack value, or rows
          12     4  payload length: bytes that belong to the body, one after another
          16     4  CRC-32C of positions 0 to 15, body and payload
          20        body, payload

The payload stays outside of msgpack, so batches are written from their place in memory and sliced where they arrived.
No I/O here: a `FrameReader` gives out memory to read into, and complete frames. Lengths are compared with their bounds
first, and memory is allocated as bytes arrive, never for a length that is only announced; any violation is a
`BadFrame`."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from raftlog.runtime.rpc.errors import BadFrame
from raftlog.types import Buffer

MAGIC: Final = b"RLOG"
FRAME_VERSION: Final = 2
_HEAD = struct.Struct(">4sBBHII")
_CRC = struct.Struct(">I")
CHECKED_SIZE: Final = _HEAD.size
HEAD_SIZE: Final = _HEAD.size + _CRC.size
_KIND_AT: Final = 5
JOINED_BYTES_MAX: Final = 16 * 1024
"""Buffers up to this size are copied together: that is cheaper than one more element of a gathered write."""
LARGE_BYTES_FIRST: Final = 1024 * 1024
"""Initial memory for a frame larger than the read buffer; it is doubled whenever it is full."""


class FrameKind(IntEnum):
    """Kind of a frame. The numbers are part of the format; the first two are understood by every version."""

    HELLO = 1
    REFUSAL = 2
    TURN = 3
    BEAT = 4
    CALL = 5
    ANSWER = 6
    FAILURE = 7
    PROOF = 8


_KINDS: Final = {int(kind): kind for kind in FrameKind}


class FrameBound(NamedTuple):
    """Bounds of one kind of frame: its body, and the whole frame with head and payload."""

    body_bytes_max: int
    frame_bytes_max: int


class Frame(NamedTuple):
    """Complete frame. `body` is valid until the reader's next `get_buffer`, `payload` without limit."""

    kind: FrameKind
    body: memoryview
    payload: bytes | memoryview

    @property
    def size(self) -> int:
        """Size of the frame on the connection, in bytes."""
        return HEAD_SIZE + len(self.body) + len(self.payload)


def encode_frame(kind: FrameKind, body: bytes, payload: Sequence[Buffer] = ()) -> list[Buffer]:
    """Return head, body and payload as buffers to write in order; large pieces of payload are not copied."""
    pieces = join_buffers((body, *payload))
    size = sum(map(len, pieces)) - len(body)
    head = _HEAD.pack(MAGIC, FRAME_VERSION, kind, 0, len(body), size)
    crc = crc32c(head)
    for piece in pieces:
        crc = crc32c(piece, crc)
    return [head + _CRC.pack(crc), *pieces]


def kind_of(frame: Sequence[Buffer]) -> int:
    """Return the kind of a frame that `encode_frame` made."""
    return frame[0][_KIND_AT]


def join_buffers(buffers: Iterable[Buffer]) -> list[Buffer]:
    """Return the same bytes in fewer buffers: copy consecutive small ones together, keep large ones."""
    result: list[Buffer] = []
    small: list[Buffer] = []
    for buffer in buffers:
        if len(buffer) <= JOINED_BYTES_MAX:
            small.append(buffer)
            continue
        if small:
            result.append(b"".join(small))
            small = []
        result.append(buffer)
    if small:
        result.append(b"".join(small) if len(small) > 1 else small[0])
    return result


class FrameReader:
    """Reader of frames from bytes. `bounds` are the accepted kinds of frames with their sizes; others are refused.

    0 ≤ start ≤ end ≤ buffer size;   a frame that does not fit the buffer gets memory of its own, within its bound

    Whenever `missing_room` is above 0, the owner calls `grow` before the next `get_buffer`."""

    def __init__(self, bounds: Mapping[int, FrameBound], buffer_bytes: int) -> None:
        """Read frames of the kinds in `bounds` through a buffer of `buffer_bytes` bytes."""
        self.bounds = bounds
        """Accepted kinds of frames with their sizes; changed by the owner, between two frames."""
        self._buffer = memoryview(bytearray(buffer_bytes))
        self._start = 0
        self._end = 0
        self._large_size = 0
        """Size of the frame that is being read into memory of its own; 0: none is."""
        self._large: memoryview | None = None
        """Allocated part of the memory for the large frame."""
        self._large_end = 0

    @property
    def is_inside_frame(self) -> bool:
        """Whether only a part of a frame was read."""
        return self._large_size > 0 or self._end > self._start

    @property
    def missing_room(self) -> int:
        """Bytes to allocate before more can be read."""
        have = 0 if self._large is None else len(self._large)
        if not self._large_size or self._large_end < have:
            return 0
        return min(self._large_size, max(LARGE_BYTES_FIRST, 2 * have)) - have

    def grow(self) -> None:
        """Allocate `missing_room` bytes more for the frame that is being read."""
        large, size = self._large, self.missing_room + (0 if self._large is None else len(self._large))
        grown = memoryview(bytearray(size))
        if large is None:
            have = self._end - self._start
            grown[:have] = self._buffer[self._start : self._end]
            self._large_end = have
            self._start = self._end = 0
        else:
            grown[: len(large)] = large
        self._large = grown

    def set_buffer(self, buffer_bytes: int) -> None:
        """Change the size of the read buffer; bytes that were read and not returned yet are kept."""
        rest = self._buffer[self._start : self._end]
        self._buffer = memoryview(bytearray(max(buffer_bytes, len(rest))))
        self._buffer[: len(rest)] = rest
        self._start, self._end = 0, len(rest)

    def get_buffer(self) -> memoryview:
        """Return the memory to read into, never empty; the bodies of earlier frames become invalid."""
        if self._large is not None:
            return self._large[self._large_end :]
        if self._start:
            rest = self._end - self._start
            if rest:
                self._buffer[:rest] = bytes(self._buffer[self._start : self._end])
            self._start, self._end = 0, rest
        return self._buffer[self._end :]

    def advance(self, size: int) -> None:
        """Count `size` bytes that were read into the memory of `get_buffer`."""
        if self._large is not None:
            self._large_end += size
            assert self._large_end <= len(self._large), f"{self._large_end} bytes in {len(self._large)}"
        else:
            self._end += size
            assert self._end <= len(self._buffer), f"{self._end} bytes in a buffer of {len(self._buffer)}"

    def next_frame(self) -> Frame | None:
        """Return the next frame, or None until it is complete. After `BadFrame` the reader must not be used again."""
        if self._large is not None:
            return self._finish_large(self._large)
        if self._large_size:
            return None
        available = self._end - self._start
        if available < HEAD_SIZE:
            if available:
                self._check_magic(available)
            return None
        kind, body_size, payload_size = self._read_head()
        size = HEAD_SIZE + body_size + payload_size
        if available < size:
            if size > len(self._buffer):
                self._large_size = size
            return None
        view = self._buffer[self._start : self._start + size]
        self._start += size
        payload_at = HEAD_SIZE + body_size
        return _check_crc(kind, view, payload_at, bytes(view[payload_at:]))

    def _check_magic(self, available: int) -> None:
        """Detect another protocol before a whole head arrived; raises `BadFrame`."""
        size = min(available, len(MAGIC))
        if self._buffer[self._start : self._start + size] != MAGIC[:size]:
            raise BadFrame("what came is not this protocol")

    def _read_head(self) -> tuple[FrameKind, int, int]:
        """Return kind, body length and payload length of the next frame. Raises `BadFrame`."""
        magic, version, kind, zero, body_size, payload_size = _HEAD.unpack_from(self._buffer, self._start)
        if magic != MAGIC:
            raise BadFrame("what came is not this protocol")
        if version != FRAME_VERSION or zero:
            raise BadFrame(f"a frame of layout {version}; this program reads layout {FRAME_VERSION}")
        bound = self.bounds.get(kind)
        if bound is None:
            raise BadFrame(f"a frame of kind {kind} may not stand here")
        if body_size > bound.body_bytes_max or HEAD_SIZE + body_size + payload_size > bound.frame_bytes_max:
            raise BadFrame(
                f"a frame of kind {kind} with a body of {body_size} and a payload of {payload_size} bytes; the bounds "
                f"are {bound.body_bytes_max} for the body and {bound.frame_bytes_max} for the frame"
            )
        return _KINDS[kind], body_size, payload_size

    def _finish_large(self, large: memoryview) -> Frame | None:
        """Return the large frame if all of it was read, else None. Raises `BadFrame`."""
        if self._large_end < self._large_size:
            return None
        self._large, self._large_end, self._large_size = None, 0, 0
        _, _, kind, _, body_size, _ = _HEAD.unpack_from(large)
        payload_at = HEAD_SIZE + body_size
        return _check_crc(FrameKind(kind), large, payload_at, large[payload_at:])


def _check_crc(kind: FrameKind, view: memoryview, payload_at: int, payload: bytes | memoryview) -> Frame:
    """Return the frame if its CRC is right. Raises `BadFrame`."""
    (stated,) = _CRC.unpack_from(view, CHECKED_SIZE)
    crc = crc32c(view[HEAD_SIZE:], crc32c(view[:CHECKED_SIZE]))
    if crc != stated:
        raise BadFrame(f"a frame of kind {kind} of {len(view)} bytes has the CRC {crc:#010x} and says {stated:#010x}")
    return Frame(kind, view[HEAD_SIZE:payload_at], payload)
