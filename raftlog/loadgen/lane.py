"""Connection to a broker with at most one request in flight: HTTP/1.1 with keep-alive.

    CONNECTING → IDLE ⇄ BUSY → closed

A lane parses only answers in the form that brokers send: a status line, headers, `Content-Length`. Any other breaks it.
"""

import socket
import ssl
from typing import Final

from raftlog.client.addresses import HTTPS, host_of

_READ_BYTES: Final = 1 << 18
_HEAD_END: Final = b"\r\n\r\n"
_STATUS_AT: Final = slice(9, 12)
_LENGTH: Final = b"\r\ncontent-length:"
_LEADER: Final = b"\r\nx-raftlog-leader:"
_LINE_END: Final = b"\r\n"


class LaneBroken(Exception):
    """A connection cannot be used further; the message has the reason."""


class RequestLane:
    """Non-blocking HTTP connection to an address, opened by the constructor. `token`: the request in flight, or -1."""

    def __init__(self, address: str, key: tuple[int, str], tls: ssl.SSLContext | None = None) -> None:
        """Open a connection to `address` without blocking; `key` is the number of the client and the address."""
        host, _, port = host_of(address).rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        family, kind, protocol, _, endpoint = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        self.key = key
        self.token = -1
        self.socket = socket.socket(family, kind, protocol)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._tls = tls if address.startswith(HTTPS) else None
        self._host, self._waits_to_read = host, False
        self.is_connected = False
        """Whether requests can be sent: the connection is open, and a TLS handshake is complete."""
        self.is_sent = False
        """Whether any byte of the request was sent."""
        self.deadline = 0.0
        self._to_send = memoryview(b"")
        self._received = b""
        self.socket.connect_ex(endpoint)

    @property
    def is_secured(self) -> bool:
        """Whether the connection uses TLS."""
        return self._tls is not None

    @property
    def wants_to_write(self) -> bool:
        """Whether the socket is watched for writing rather than only for reading."""
        return len(self._to_send) > 0 if self.is_connected else not self._waits_to_read

    def begin(self, token: int, request: bytes, deadline: float) -> None:
        """Begin a request, which is sent as far as possible now; raises `LaneBroken`."""
        assert self.token < 0, f"request {self.token} is under way"
        self.token, self.deadline = token, deadline
        self.is_sent = False
        self._to_send = memoryview(request)
        if self.is_connected:
            self._write()

    def handle_writable(self) -> None:
        """Continue to connect or to send after the socket became writable; raises `LaneBroken`."""
        if self.is_connected or self._connect():
            self._write()

    def _connect(self) -> bool:
        """Continue the connection's setup and its TLS handshake; return whether both are done. Raises `LaneBroken`."""
        if not isinstance(self.socket, ssl.SSLSocket):
            error = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise LaneBroken(f"no connection: error {error}")
            if self._tls is None:
                self.is_connected = True
                return True
            self.socket = self._tls.wrap_socket(self.socket, server_hostname=self._host, do_handshake_on_connect=False)
        self._waits_to_read = False
        try:
            self.socket.do_handshake()
        except ssl.SSLWantReadError:
            self._waits_to_read = True
            return False
        except ssl.SSLWantWriteError:
            return False
        except OSError as error:
            raise LaneBroken(f"no TLS: {error}") from None
        self.is_connected = True
        return True

    def _write(self) -> None:
        """Send as many bytes of the request as the socket accepts."""
        try:
            while self._to_send:
                sent = self.socket.send(self._to_send)
                self.is_sent = True
                self._to_send = self._to_send[sent:]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return
        except OSError as error:
            raise LaneBroken(str(error)) from None

    def handle_readable(self) -> tuple[int, bytes, str] | None:
        """Read from the socket; return status, body and leader of a complete answer. Raises `LaneBroken`."""
        if self._tls is not None and not self.is_connected:
            if self._connect():
                self._write()
            return None
        try:
            part = self.socket.recv(_READ_BYTES)
            if self._tls is not None:
                part += self._read_pending()
        except (BlockingIOError, ssl.SSLWantReadError):
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

    def _read_pending(self) -> bytes:
        """Return bytes that TLS has decrypted already; the socket does not become readable for them."""
        assert isinstance(self.socket, ssl.SSLSocket), "pending bytes of a plain socket"
        found = b""
        while pending := self.socket.pending():
            found += self.socket.recv(pending)
        return found

    def close(self) -> None:
        self.socket.close()


def _read_header(head: bytes, name: bytes) -> bytes:
    """Return the value of a header; empty without the header. `name` is lower-case, after a line end, with a colon."""
    _, found, rest = head.partition(name)
    return rest[: rest.index(_LINE_END)].strip() if found else b""
