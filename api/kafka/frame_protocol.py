"""Split of received bytes into frames, the base of a Kafka connection.

    one read → complete frames → taken, in its turn of the loop
             → the incomplete last one → kept until further bytes arrive, in memory that grows with them
             → what may not be read yet, or has no memory → kept; nothing is read from the socket meanwhile

Called by the event loop; `connection` decides when frames may be read, and processes them."""

import asyncio
from abc import ABC, abstractmethod
from struct import Struct
from typing import Any, Final

from raftlog.api.kafka.connection_owner import ConnectionOwner
from raftlog.api.kafka.incoming_frame import UNCHARGED_BYTES_MAX, IncomingFrame, describe_wrong_size

UNCHARGED_TOTAL_MAX: Final = 16 * 1024
READ_BYTES: Final = 64 * 1024
"""Bytes that are read at once into the scratch buffer without TLS."""
SCRATCH_BYTES: Final = 288 * 1024
"""Size of the scratch buffer: uvloop's TLS decrypts 256 KiB in a turn, and records whose beginning came earlier."""
_LENGTH: Final = Struct(">i")


class FrameProtocol(asyncio.BufferedProtocol, ABC):
    """Protocol that passes complete frames to `_take`."""

    is_ending: bool
    """Whether no further request begins."""

    __slots__ = (
        "_frame",
        "_head",
        "_is_read_paused",
        "_is_waiting_for_memory",
        "_loop",
        "_owner",
        "_rest",
        "_transport",
        "_uncharged",
    )

    def __init__(self, owner: "ConnectionOwner[Any]", loop: asyncio.AbstractEventLoop) -> None:
        self._owner, self._loop = owner, loop
        self._transport: asyncio.Transport | None = None
        self._head = b""
        """Received bytes of an incomplete length prefix."""
        self._frame: IncomingFrame | None = None
        """Frame that waits for further bytes or for memory."""
        self._rest: bytes | None = None
        """Bytes that were read but not split yet; None: none. Nothing is read while there are any."""
        self._uncharged = 0
        """Bytes of requests that hold no memory of the budget."""
        self._is_read_paused = self._is_waiting_for_memory = False

    # ---- of the connection

    @property
    @abstractmethod
    def _may_read(self) -> bool:
        """Whether one more request may be read from the socket."""

    @abstractmethod
    def _frame_bounds(self) -> tuple[int, int]:
        """Return the least and the greatest size of a frame that is accepted now."""

    @abstractmethod
    def _take(self, frame: memoryview, uncharged: int, owner: IncomingFrame | None) -> None:
        """Process a complete frame; `owner` holds its memory, otherwise `uncharged` bytes are counted."""

    @abstractmethod
    def _refuse(self, why: str) -> None:
        """Close the connection because of the client's fault."""

    @abstractmethod
    def _resume(self) -> None:
        """Continue with the kept bytes, and resume reading, each if it is allowed now."""

    # ---- bytes

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the room of a large frame, and otherwise the scratch buffer.

        uvloop's TLS passes the number of received bytes as `sizehint`, and continues in the loop's next turn when the
        buffer is full. With the scratch buffer all requests among the bytes begin in one turn."""
        frame, owner = self._frame, self._owner
        if frame is not None and frame.has_much_room:
            return frame.room
        return owner.scratch if sizehint > READ_BYTES else owner.scratch[:READ_BYTES]

    def _take_frames(self, data: memoryview, end: int) -> None:
        """Process the complete frames in `data[:end]`, and keep the rest."""
        if self._head:
            data = memoryview(self._head + bytes(data[:end]))
            end, self._head = len(data), b""
        position = 0
        if self._frame is not None:
            position = self._fill_frame(self._frame, data, end)
        while position < end:
            if self._is_waiting_for_memory or not self._may_read:
                self._keep_rest(data[position:end])
                return
            begin = position + _LENGTH.size
            if end < begin:
                self._head = bytes(data[position:end])
                return
            size = _LENGTH.unpack_from(data, position)[0]
            low, high = self._frame_bounds()
            if not low <= size <= high:
                self._refuse(describe_wrong_size(size, low, high))
                return
            position = begin + size
            if position <= end and size <= UNCHARGED_BYTES_MAX and self._uncharged + size <= UNCHARGED_TOTAL_MAX:
                self._take(memoryview(bytes(data[begin:position])), size, None)
                continue
            is_charged = self._uncharged + min(size, UNCHARGED_BYTES_MAX) > UNCHARGED_TOTAL_MAX
            frame = self._frame = IncomingFrame(size, data[begin : min(position, end)], is_charged=is_charged)
            if not self._continue_frame(frame):
                if position < end:
                    self._keep_rest(data[position:end])
                return

    def _fill_frame(self, frame: IncomingFrame, data: memoryview, end: int) -> int:
        """Add the beginning of `data[:end]` to an incomplete frame, and process the frame if it is complete.

        Return the number of added bytes: 0 if the frame has to wait for memory."""
        count = min(end, frame.size - frame.filled)
        frame.note_arrived(count)
        if not self._take_memory(frame):
            return 0
        frame.grow()
        frame.add(data[:count])
        if frame.is_complete:
            self._take_frame(frame)
        return count

    def _continue_frame(self, frame: IncomingFrame) -> bool:
        """Enlarge an incomplete frame, or process a complete one; return whether it was processed."""
        return self._take_memory(frame) and self._grow_or_take(frame)

    def _take_memory(self, frame: IncomingFrame) -> bool:
        """Take the memory that the frame needs; without it pause reading until it is granted, and return False."""
        if frame.take_missing(self._owner.requests, self._on_memory_granted):
            return True
        self._is_waiting_for_memory = True
        self._pause_reading()
        return False

    def _grow_or_take(self, frame: IncomingFrame) -> bool:
        """Enlarge an incomplete frame, or process a complete one; return whether it was complete."""
        if not frame.is_complete:
            frame.grow()
            return False
        self._take_frame(frame)
        return True

    def _take_frame(self, frame: IncomingFrame) -> None:
        """Process the present frame, which is complete."""
        self._frame = None
        self._take(frame.content, 0 if frame.held else frame.size, frame if frame.held else None)

    def _on_memory_granted(self) -> None:
        """Continue an incomplete frame in a later turn of the loop; called once its memory is granted."""
        frame = self._frame
        assert frame is not None, "memory for no frame"
        frame.held += frame.missing
        self._loop.call_soon(self._continue_with_memory, frame)

    def _continue_with_memory(self, frame: IncomingFrame) -> None:
        if self._frame is frame and not self.is_ending:
            self._is_waiting_for_memory = False
            self._grow_or_take(frame)
            self._resume()

    def _keep_rest(self, rest: memoryview) -> None:
        self._rest = bytes(rest)
        self._pause_reading()

    def _pause_reading(self) -> None:
        if not self._is_read_paused and self._transport is not None:
            self._is_read_paused = True
            self._transport.pause_reading()
