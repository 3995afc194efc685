"""Frames that wait to be written: operations as bytes, and the number of the block that each frame will begin with.

    pending bytes = operations of all frames that wait
    number of a frame + its blocks = number of the next,   the last one's = `end`

The number of a frame is known from the beginning because frames before it are closed: only the last one grows.
"""

from collections import deque
from collections.abc import Sequence

from raftlog.runtime.journal.blocks import FIRST_SEQUENCE, JournalSequence, count_blocks
from raftlog.runtime.journal.operations import FRAME_HEAD, FRAME_HEAD_SIZE, OPERATION_HEAD_SIZE, Encoded
from raftlog.types import Buffer


class PendingFrame:
    """Frame that waits to be written: operations as bytes, heads and bodies apart."""

    __slots__ = ("_bodies", "_heads", "number", "size")

    def __init__(self, number: JournalSequence) -> None:
        """Begin an empty frame whose first block has the sequence `number`."""
        self.number = number
        self.size = FRAME_HEAD_SIZE
        """Payload bytes so far."""
        self._heads: list[bytes] = []
        self._bodies: list[Buffer] = []

    @property
    def operation_bytes(self) -> int:
        return self.size - FRAME_HEAD_SIZE

    @property
    def end(self) -> int:
        """The sequence after its last block."""
        return self.number + count_blocks(self.size)

    def add(self, encoded: Sequence[Encoded], size: int) -> None:
        """Add operations that have `size` bytes together."""
        for head, body, _ in encoded:
            self._heads.append(head)
            self._bodies.extend(body)
        self.size += size

    def payload(self) -> bytes:
        """Return the bytes of the frame: count, heads, bodies."""
        payload = b"".join((FRAME_HEAD.pack(len(self._heads), 0), *self._heads, *self._bodies))
        assert len(payload) == self.size, f"frame {self.number} has {len(payload)} bytes, not {self.size}"
        return payload


class FrameQueue:
    """Queue of frames that wait to be written.

    `start_at` has to be called before anything else when the journal does not begin with block 1."""

    def __init__(self, payload_bytes_max: int) -> None:
        """Begin without frames; `payload_bytes_max` limits the payload of a frame."""
        self.pending_bytes = 0
        """Bytes of operations that wait."""
        self._payload_bytes_max = payload_bytes_max
        self.frames: deque[PendingFrame] = deque()
        """Frames that wait, oldest first; changed only here."""
        self.end: int = FIRST_SEQUENCE
        """The sequence after the last block of all frames that wait."""

    def start_at(self, sequence: int) -> None:
        """Set the number of the first block, for a journal that was read."""
        assert not self.frames, f"{len(self.frames)} frames wait already"
        self.end = sequence

    @property
    def first(self) -> JournalSequence:
        """Sequence of the next frame to be written."""
        return self.frames[0].number if self.frames else JournalSequence(self.end)

    @property
    def last(self) -> JournalSequence:
        """Sequence of the last frame that waits."""
        return self.frames[-1].number

    def begin_frame(self) -> PendingFrame:
        """Close the last frame and append an empty one, which is returned."""
        frame = PendingFrame(JournalSequence(self.end))
        self.frames.append(frame)
        self.end = frame.number + 1
        return frame

    def take(self, encoded: Sequence[Encoded], size: int) -> JournalSequence:
        """Add operations to the last frame, and to new frames when it is full; return the number of the last frame."""
        self.pending_bytes += size
        frame = self.frames[-1] if self.frames else self.begin_frame()
        if frame.size + size <= self._payload_bytes_max:
            frame.add(encoded, size)
            self.end = frame.end
            return frame.number
        for each in encoded:
            if frame.size + OPERATION_HEAD_SIZE + each[2] > self._payload_bytes_max:
                frame = self.begin_frame()
            frame.add((each,), OPERATION_HEAD_SIZE + each[2])
            self.end = frame.end
        return frame.number

    def pop(self) -> PendingFrame:
        """Remove and return the frame to write next; if none waits, return a frame without operations."""
        if not self.frames:
            self.begin_frame()
        frame = self.frames.popleft()
        self.pending_bytes -= frame.operation_bytes
        return frame
