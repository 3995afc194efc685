"""Bounds of the transport between processes."""

from dataclasses import dataclass

from raftlog.errors import InvalidArgument
from raftlog.topic_config import KIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcConfig:
    """Bounds of the transport: sizes in bytes, times in milliseconds; every number is at least 1.

    2 · turn_bytes ≤ frame_bytes_max,   turn_bytes + frame_bytes_max / 8 ≤ body_bytes_max (an entry has at least 61
    bytes of payload for 8 in the body),   header_bytes_max ≤ frame_bytes_max,   reconnect_min_ms ≤ reconnect_max_ms
    """

    frame_bytes_max: int = 64 * MIB
    """Largest frame that is sent or accepted."""
    body_bytes_max: int = 16 * MIB
    """Largest body of a frame of Raft messages: all fields except the batches."""
    header_bytes_max: int = MIB
    """Largest header value of a request or answer; large data belongs into the payload. Decoding a header takes up to
    about 64 times its size in memory."""
    list_items_max: int = 16 * KIB
    """Maximum number of items of a list or mapping inside a header value."""
    hello_bytes_max: int = 4 * KIB
    """Largest frame of a handshake."""
    read_buffer_bytes: int = 256 * KIB
    """Bytes read at once from a connection; larger frames are read into memory of their own."""
    receive_bytes_max: int = 128 * MIB
    """Memory for larger frames while they arrive, over all connections together; allocated as bytes arrive."""
    write_buffer_bytes: int = MIB
    """Bytes passed to the socket and not sent yet; the rest waits in the send queue, where it can be dropped."""
    turn_bytes: int = 4 * MIB
    """Size above which the messages of one turn are sent in several frames."""
    send_queue_bytes_max: int = 32 * MIB
    """Bytes that may wait for one connection. Above this bound Raft messages are dropped, the oldest heartbeats first,
    and requests are refused. A single frame always fits into an empty queue."""
    calls_outstanding_max: int = 16 * KIB
    """Maximum number of requests to one peer and channel without an answer yet."""
    calls_served_max: int = 4 * KIB
    """Maximum number of requests of one connection that are served at once; more are answered with `Overloaded`."""
    served_bytes_max: int = 64 * MIB
    """Maximum payload bytes of the requests of one connection that are served at once."""
    bulk_timeout_ms: int = 30_000
    """Timeout of a request over the bulk channel, unless its caller sets a shorter one."""
    bulk_bytes_per_s: int = 128 * MIB
    """Rate at which this process sends over all its bulk connections together."""
    bulk_burst_bytes: int = MIB
    """Bytes that may be sent at once after a pause."""
    handshake_timeout_ms: int = 5_000
    """Time from the connection (TLS included) to the end of the handshake."""
    probe_timeout_ms: int = 15_000
    """Time after which a probe, a connection to an address for one request, ends."""
    stall_timeout_ms: int = 30_000
    """Time without further bytes of a frame that was begun, after which its connection ends."""
    close_timeout_ms: int = 1_000
    """Time in which the remaining bytes are sent when the transport closes."""
    reconnect_min_ms: int = 50
    reconnect_max_ms: int = 1_000
    """Bounds of the pause before a new connection attempt.

    The pause doubles after each failure; a random part of up to half of it is omitted."""
    strangers_max: int = 128
    """Maximum number of accepted connections before their handshake is done; more are closed at once."""
    protocol_error_interval_ms: int = 60_000
    """Interval in which one source is logged at most once."""
    sources_max: int = 1_024
    """Maximum number of sources that are distinguished in the log."""
    peers_remembered_max: int = 4_096
    """Maximum number of disks whose boot epoch and journal sequence are kept."""

    def __post_init__(self) -> None:
        """Raise `InvalidArgument` for numbers below 1, or that contradict each other."""
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name}={getattr(self, name)} is out of range: it must be at least 1")
        for name, value in (("turn_bytes", 2 * self.turn_bytes), ("header_bytes_max", self.header_bytes_max)):
            if value > self.frame_bytes_max:
                raise InvalidArgument(
                    f"{name}={getattr(self, name)} is out of range for frame_bytes_max={self.frame_bytes_max}: "
                    "a frame holds two turns and a header value"
                )
        if self.turn_bytes + self.frame_bytes_max // 8 > self.body_bytes_max:
            raise InvalidArgument(
                f"body_bytes_max={self.body_bytes_max} is out of range for turn_bytes={self.turn_bytes} and "
                f"frame_bytes_max={self.frame_bytes_max}: it must be at least the one and an eighth of the other"
            )
        if self.reconnect_min_ms > self.reconnect_max_ms:
            raise InvalidArgument(
                f"reconnect_min_ms={self.reconnect_min_ms} is above reconnect_max_ms={self.reconnect_max_ms}"
            )
