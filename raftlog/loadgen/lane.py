"""Connection to a broker with at most one request in flight: HTTP/1.1 with keep-alive.

    CONNECTING → IDLE ⇄ BUSY → closed

It parses only the form that brokers send: a status line, headers, `Content-Length`. Any other answer breaks the lane.
"""

import socket
from typing import Final

_READ_BYTES: Final = 1 << 18
_HEAD_END: Final = b"\r\n\r\n"
_STATUS_AT: Final = slice(9, 12)
_LENGTH: Final = b"\r\ncontent-length:"
_LEADER: Final = b"\r\nx-raftlog-leader:"
_LINE_END: Final = b"\r\n"


class LaneBroken(Exception):
    """Error of a connection that cannot be used further; the message has the reason."""


class RequestLane:
    """Connection to one address, opened at its creation; `token` names the request in flight."""

    def __init__(self, address: str, key: tuple[int, str]) -> None:
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        family, kind, protocol, _, endpoint = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        self.key = key
        self.token = -1
        self.socket = socket.socket(family, kind, protocol)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_connected = False
        self.is_sent = False
        """Whether any byte of the request was sent."""
        self.deadline = 0.0
        self._to_send = memoryview(b"")
        self._received = b""
        self.socket.connect_ex(endpoint)

    @property
    def wants_to_write(self) -> bool:
        return not self.is_connected or len(self._to_send) > 0

    def begin(self, token: int, request: bytes, deadline: float) -> None:
        """Send a request; raises `LaneBroken`."""
        assert self.token < 0, f"request {self.token} is under way"
        self.token, self.deadline = token, deadline
        self.is_sent = False
        self._to_send = memoryview(request)
        if self.is_connected:
            self._write()

    def handle_writable(self) -> None:
        """Continue after the socket became writable: finish the connect, send more; raises `LaneBroken`."""
        if not self.is_connected:
            error = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise LaneBroken(f"no connection: error {error}")
            self.is_connected = True
        self._write()

    def _write(self) -> None:
        """Send as many bytes of the request as the socket accepts."""
        try:
            while self._to_send:
                sent = self.socket.send(self._to_send)
                self.is_sent = True
                self._to_send = self._to_send[sent:]
        except BlockingIOError:
            return
        except OSError as error:
            raise LaneBroken(str(error)) from None

    def handle_readable(self) -> tuple[int, bytes, str] | None:
        """Read; return status, body and leader of a complete answer, or None. Raises `LaneBroken`."""
        try:
            part = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            raise LaneBroken(str(error)) from None
        if not part:
            raise LaneBroken("the broker closed the connection")
        received = self._received = self._received + part if self._received else part
        end = received.find(_HEAD_END)
        if end < 0:
            return None
        head = received[: end + 2].lower()
        try:
            status, length = int(head[_STATUS_AT]), int(_read_header(head, _LENGTH) or 0)
        except ValueError:
            raise LaneBroken(f"the answer is not HTTP: {received[:40]!r}") from None
        body = received[end + len(_HEAD_END) :]
        if len(body) < length:
            return None
        if len(body) > length or self.token < 0:
            raise LaneBroken("the broker sent an answer without a request")
        self._received, self.token = b"", -1
        return status, body, _read_header(head, _LEADER).decode()

    def close(self) -> None:
        self.socket.close()


def _read_header(head: bytes, name: bytes) -> bytes:
    """Return the value of a header, or empty bytes."""
    _, found, rest = head.partition(name)
    return rest[: rest.index(_LINE_END)].strip() if found else b""
