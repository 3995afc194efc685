"""Queue of messages and requests for one connection, bounded in bytes.

    queued bytes ≤ bytes_max, except for a single frame in an otherwise empty queue

Raft messages may be dropped, because Raft repeats them: above the bound the oldest heartbeats are dropped first, and
then new messages, because the receiver would refuse entries that follow dropped ones. Requests and answers are accepted
or refused, never dropped. Of heartbeats between processes only the newest counts. No I/O."""

import logging
from collections import deque
from collections.abc import Sequence

from raftlog.raft.messages import Heartbeat, HeartbeatResponse
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.frames.codec import encode_heartbeat, encode_turn, size_of
from raftlog.runtime.rpc.frames.frame import FrameKind, kind_of
from raftlog.runtime.rpc.traffic import Flow
from raftlog.runtime.transport import Envelope, ProcessHeartbeat
from raftlog.types import Buffer

_logger = logging.getLogger(__name__)

_HEARTBEATS = frozenset({Heartbeat, HeartbeatResponse})


class SendQueue:
    """Queue that is filled by `add_…` and emptied by `take`."""

    def __init__(self, config: RpcConfig, sent: Flow) -> None:
        """Begin an empty queue; `sent` counts the messages and bytes that leave it."""
        self._config = config
        self._sent = sent
        self.messages_dropped = 0
        """Number of Raft messages that were dropped for lack of room or by `discard`."""
        self._envelopes: deque[Envelope] = deque()
        self._envelope_bytes = 0
        self._has_heartbeats = False
        """Whether there may be heartbeats among the envelopes."""
        self._frames: deque[tuple[list[Buffer], int]] = deque()
        self._frame_bytes = 0
        self._heartbeat: ProcessHeartbeat | None = None
        self._is_too_large_logged = False

    def __bool__(self) -> bool:
        return bool(self._envelopes or self._frames or self._heartbeat)

    @property
    def bytes(self) -> int:
        """Upper bound of the bytes that are queued."""
        return self._envelope_bytes + self._frame_bytes

    def add_envelopes(self, envelopes: Sequence[Envelope]) -> None:
        """Add Raft messages; without room, drop some."""
        size = sum(map(size_of, envelopes))
        if size <= self._config.turn_bytes and self.bytes + size <= self._config.send_queue_bytes_max:
            self._envelopes.extend(envelopes)
            self._envelope_bytes += size
            self._has_heartbeats = True
            return
        for envelope in envelopes:
            self._add_envelope(envelope, size_of(envelope))

    def add_heartbeat(self, heartbeat: ProcessHeartbeat) -> None:
        """Queue a heartbeat in place of an older one."""
        self._heartbeat = heartbeat

    def add_frame(self, frame: list[Buffer]) -> bool:
        """Add a request or an answer; return False if there is no room."""
        size = sum(map(len, frame))
        if not self._has_room(size):
            return False
        self._frames.append((frame, size))
        self._frame_bytes += size
        return True

    def take(self, frames_bytes: int) -> list[Buffer]:
        """Return the next buffers to write: heartbeat, one frame of messages, and about `frames_bytes` of requests.

        A frame has messages of up to `turn_bytes`; at least one request is returned, if there is any."""
        buffers: list[Buffer] = []
        if self._heartbeat is not None:
            buffers += encode_heartbeat(self._heartbeat)
            self._sent.count_frame(FrameKind.BEAT)
            self._heartbeat = None
        if self._envelopes:
            envelopes = self._take_envelopes()
            buffers += encode_turn(envelopes)
            self._sent.count_messages(envelopes)
        taken = 0
        while self._frames and taken < frames_bytes:
            frame, size = self._frames.popleft()
            buffers += frame
            taken += size
            self._sent.count_frame(kind_of(frame))
        self._frame_bytes -= taken
        return buffers

    def discard(self) -> None:
        """Drop all queued messages and requests; called after the end of the connection."""
        self.messages_dropped += len(self._envelopes)
        self._envelopes.clear()
        self._frames.clear()
        self._heartbeat = None
        self._envelope_bytes = self._frame_bytes = 0

    def _has_room(self, size: int) -> bool:
        """Return whether the queue can accept `size` bytes; an empty queue accepts any size."""
        return self.bytes + size <= self._config.send_queue_bytes_max or not self.bytes

    def _add_envelope(self, envelope: Envelope, size: int) -> None:
        """Add one Raft message; without room, drop heartbeats first, then the message."""
        bound = self._config.frame_bytes_max - self._config.turn_bytes
        if size > bound:
            self.messages_dropped += 1
            if not self._is_too_large_logged:
                self._is_too_large_logged = True
                _logger.error("a message of %d bytes can never be sent: at most %d fit into a frame", size, bound)
            return
        if not self._has_room(size):
            self._drop_heartbeats(size)
        if not self._has_room(size):
            self.messages_dropped += 1
            return
        self._envelopes.append(envelope)
        self._envelope_bytes += size
        self._has_heartbeats = self._has_heartbeats or type(envelope.message) in _HEARTBEATS

    def _take_envelopes(self) -> list[Envelope]:
        """Remove and return the oldest messages, of about `turn_bytes` together."""
        if self._envelope_bytes <= self._config.turn_bytes:
            taken = list(self._envelopes)
            self._envelopes.clear()
            self._envelope_bytes = 0
            return taken
        taken = []
        size = 0
        while self._envelopes and size < self._config.turn_bytes:
            envelope = self._envelopes.popleft()
            taken.append(envelope)
            size += size_of(envelope)
        self._envelope_bytes -= size
        return taken

    def _drop_heartbeats(self, size: int) -> None:
        """Drop heartbeats until there is room for `size` bytes; search only if there may be heartbeats."""
        if not self._has_heartbeats:
            return
        kept: deque[Envelope] = deque()
        is_one_kept = False
        while self._envelopes:
            envelope = self._envelopes.popleft()
            is_heartbeat = type(envelope.message) in _HEARTBEATS
            if is_heartbeat and not self._has_room(size):
                self._envelope_bytes -= size_of(envelope)
                self.messages_dropped += 1
            else:
                kept.append(envelope)
                is_one_kept = is_one_kept or is_heartbeat
        self._envelopes = kept
        self._has_heartbeats = is_one_kept
