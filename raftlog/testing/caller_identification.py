"""Identification of the caller of a connection between brokers, by the node id in its first frame."""

from typing import Final

from raftlog.runtime.rpc.errors import BadFrame
from raftlog.runtime.rpc.frames.frame import FrameBound, FrameKind, FrameReader
from raftlog.runtime.rpc.handshake import decode_hello

_HELLO_BYTES_MAX: Final = 4096
_BOUNDS: Final[dict[int, FrameBound]] = {FrameKind.HELLO: FrameBound(_HELLO_BYTES_MAX, _HELLO_BYTES_MAX)}


class HelloIdentification:
    """Reader of the caller's node id from the first bytes of a connection, which have one layout in all versions."""

    def __init__(self) -> None:
        self._reader = FrameReader(_BOUNDS, _HELLO_BYTES_MAX)
        self.node: int | None = None
        """Node id of the caller; None until it is read, and for a caller that sends none."""
        self.is_complete = False
        """Whether the caller is identified, or has sent something other than its identification."""

    def feed(self, data: bytes) -> None:
        """Read more bytes of the connection; called until its hello names the caller or is unreadable."""
        room = self._reader.get_buffer()
        size = min(len(room), len(data))
        room[:size] = data[:size]
        self._reader.advance(size)
        try:
            frame = self._reader.next_frame()
            if frame is not None:
                self.node = int(decode_hello(frame.body).identity.node_id)
                self.is_complete = True
        except BadFrame:
            self.is_complete = True


class KnownCaller:
    """Identification of a caller that sends no node id, by the port to which it has connected."""

    def __init__(self, node: int) -> None:
        self.node: int | None = node
        self.is_complete = True

    def feed(self, data: bytes) -> None:
        """Raise `AssertionError`: a known caller sends no identification."""
        raise AssertionError(f"{len(data)} bytes of identification, but the caller is identified by its port")
