"""Who is on the other side of a connection between brokers: read from its first frame, without answering it."""

from typing import Final

from raftlog.runtime.rpc.errors import BadFrame
from raftlog.runtime.rpc.frames.frame import FrameBound, FrameKind, FrameReader
from raftlog.runtime.rpc.handshake import decode_hello

_HELLO_BYTES_MAX: Final = 4096
_BOUNDS: Final[dict[int, FrameBound]] = {FrameKind.HELLO: FrameBound(_HELLO_BYTES_MAX, _HELLO_BYTES_MAX)}


class Introduction:
    """Is fed the first bytes of a connection. Its layout is the same for all versions."""

    def __init__(self) -> None:
        self._reader = FrameReader(_BOUNDS, _HELLO_BYTES_MAX)
        self.node: int | None = None
        """The node that speaks; None as long as it is not known, and for good with a stranger."""
        self.is_over = False
        """Whether it is known who speaks, or that it is nobody who introduces himself."""

    def feed(self, data: bytes) -> None:
        room = self._reader.get_buffer()
        size = min(len(room), len(data))
        room[:size] = data[:size]
        self._reader.advance(size)
        try:
            frame = self._reader.next_frame()
            if frame is not None:
                self.node = int(decode_hello(frame.body).identity.node_id)
                self.is_over = True
        except BadFrame:
            self.is_over = True


class KnownCaller:
    """Whoever calls at that port is the same, and need not say so."""

    def __init__(self, node: int) -> None:
        self.node: int | None = node
        self.is_over = True

    def feed(self, data: bytes) -> None:
        raise AssertionError(f"{len(data)} bytes to find out who calls, although it is known")
