"""Listening sockets of client listeners, with TLS if it is configured. Used by the HTTP and the Kafka listener.

    open handshakes ≤ HANDSHAKES_MAX: a further one ends the oldest;   each ends within HANDSHAKE_S

With TLS this module accepts the sockets, and not asyncio's server, so that the address of a client whose handshake
failed can be logged. The protocol's `connection_made` is called after the handshake."""

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from raftlog.errors import InvalidArgument
from raftlog.events import event
from raftlog.security.tls_files import ServerTls

_logger = logging.getLogger(__name__)

HANDSHAKE_S: Final = 10.0
SHUTDOWN_S: Final = 5.0
"""Time at the end of a connection for unsent bytes and for the client's TLS close_notify."""
HANDSHAKES_MAX: Final = 512
_ACCEPTED_AT_ONCE: Final = 64
_ACCEPT_PAUSE_S: Final = 1.0
"""Pause after an error for which an immediate retry is useless, such as too many open files."""
_TIMEOUT_WORDS: Final = "taking longer than"
_NO_TLS: Final = "the client does not use TLS, and this listener needs it (https://, or SSL in Kafka's clients)"
_REFUSED: Final = (
    "the client does not accept the listener's certificate: it needs the authority (--ca), and the host that it "
    "connects to among the certificate's names"
)
_REASONS: Final = {
    "HTTP_REQUEST": _NO_TLS,
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "WRONG_SSL_VERSION": _NO_TLS,
    "PACKET_LENGTH_TOO_LONG": _NO_TLS,
    "UNKNOWN_PROTOCOL": _NO_TLS,
    "UNSUPPORTED_PROTOCOL": "the client offers only versions below TLS 1.2",
    "NO_SHARED_CIPHER": "the client offers none of the ciphers of this listener",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate, and this listener requires one",
    "TLSV1_ALERT_UNKNOWN_CA": _REFUSED,
    "SSLV3_ALERT_BAD_CERTIFICATE": _REFUSED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _REFUSED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client says that the listener's certificate has expired",
}
"""Texts for OpenSSL's reasons."""


class ListeningSockets(Protocol):
    """Methods of `asyncio.Server` that listeners use."""

    @property
    def sockets(self) -> Sequence[Any]: ...
    async def start_serving(self) -> None:
        """Begin to accept connections."""
        ...

    def close(self) -> None:
        """Stop accepting connections; open ones stay open."""
        ...

    async def wait_closed(self) -> None:
        """Wait until the sockets are closed."""
        ...


async def bind(
    factory: Callable[[], asyncio.BaseProtocol],
    host: str,
    port: int,
    backlog: int,
    tls: ServerTls | None = None,
    listener: str = "",
) -> ListeningSockets:
    """Bind an address; connections are accepted after `start_serving`. Port 0: a free port. Raises `OSError`."""
    loop = asyncio.get_running_loop()
    if tls is None:
        return await loop.create_server(factory, host, port, backlog=backlog, start_serving=False)
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = list(dict.fromkeys((info[0], info[4][:2]) for info in found))
    sockets: list[socket.socket] = []
    try:
        for family, address in addresses[:1] if port == 0 else addresses:  # a free port is free on one address
            sockets.append(socket.create_server(address, family=family, backlog=backlog))
    except OSError:
        for each in sockets:
            each.close()
        raise
    return TlsSockets(factory, sockets, tls, listener)


def listen_error(host: str, port: int, error: OSError) -> InvalidArgument:
    """Return the error for a failure of `bind`, with the reason and a correction."""
    if isinstance(error, socket.gaierror):
        why = "this host name has no address"
    elif error.errno == errno.EADDRINUSE:
        why = "another program listens there; stop it, or choose another port"
    elif error.errno == errno.EACCES:
        why = "this user may not listen there; choose a port from 1024 up"
    elif error.errno == errno.EADDRNOTAVAIL:
        why = "this machine has no such address"
    else:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    return InvalidArgument(f"cannot listen on {host}:{port}: {why}")


class TlsSockets:
    """Listening sockets that pass on connections after their TLS handshake."""

    def __init__(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        sockets: Sequence[socket.socket],
        tls: ServerTls,
        listener: str,
    ) -> None:
        """Prepare to accept TLS connections on listening sockets; `factory` creates the protocol of a connection.

        `listener` is the name for logs."""
        self._loop = asyncio.get_running_loop()
        self._factory, self._tls, self._listener = factory, tls, listener
        self.sockets = tuple(sockets)
        self._paused: dict[socket.socket, asyncio.TimerHandle] = {}
        self._handshakes: dict[asyncio.Task[None], socket.socket] = {}
        """Open handshakes, the oldest first."""
        for each in sockets:
            each.setblocking(False)

    @property
    def handshakes(self) -> int:
        """Number of open handshakes."""
        return len(self._handshakes)

    async def start_serving(self) -> None:
        """Begin to accept connections."""
        for each in self.sockets:
            self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        """Stop accepting, and end open handshakes; connections stay open."""
        for each in self.sockets:
            if each.fileno() >= 0:
                self._loop.remove_reader(each)
                each.close()
        for timer in self._paused.values():
            timer.cancel()
        self._paused.clear()
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until no handshake is open."""
        if self._handshakes:
            await asyncio.wait(list(self._handshakes))

    def _accept(self, listening: socket.socket) -> None:
        """Accept waiting connections, and begin their handshakes.

        Above `HANDSHAKES_MAX` the oldest handshake is cancelled. Without free file descriptors accepting pauses for
        `_ACCEPT_PAUSE_S` seconds."""
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, name = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _logger.error("the listener %s cannot accept connections: %s; it retries in 1 s", self._listener, error)
                self._loop.remove_reader(listening)
                self._paused[listening] = self._loop.call_later(_ACCEPT_PAUSE_S, self._resume, listening)
                return
            if len(self._handshakes) >= HANDSHAKES_MAX:
                next(iter(self._handshakes)).cancel()
            task = self._loop.create_task(self._open(accepted, str(name[0])), name=f"TLS of {self._listener}")
            self._handshakes[task] = accepted
            task.add_done_callback(self._finish)

    def _resume(self, listening: socket.socket) -> None:
        """Accept connections again after a pause."""
        del self._paused[listening]
        self._loop.add_reader(listening, self._accept, listening)

    async def _open(self, accepted: socket.socket, source: str) -> None:
        """Make the TLS connection of an accepted socket; close it after an error."""
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                if not await self._wait_for_bytes(accepted):
                    accepted.close()
                    return
            await self._loop.connect_accepted_socket(
                self._factory,
                accepted,
                ssl=self._tls.context,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except OSError as error:  # TimeoutError among them
            accepted.close()
            why = describe_failure(error)
            event(_logger, "tls_handshake_failed", listener=self._listener, address=source, why=why)

    async def _wait_for_bytes(self, accepted: socket.socket) -> bool:
        """Wait for the first byte; return False if the client closes the connection before, as load balancers do.

        So a client that sends nothing needs no memory for TLS."""
        accepted.setblocking(False)
        readable: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(accepted, _complete, readable)
        try:
            await readable
        finally:
            self._loop.remove_reader(accepted)
        try:
            return bool(accepted.recv(1, socket.MSG_PEEK))
        except ConnectionError:
            return False

    def _finish(self, task: asyncio.Task[None]) -> None:
        """Remove a handshake that ended, and report an unexpected error of it."""
        accepted = self._handshakes.pop(task)
        if task.cancelled():  # it may have had no step to close the socket
            accepted.close()
        elif (error := task.exception()) is not None:
            self._loop.call_exception_handler({"message": "a TLS handshake failed", "exception": error, "task": task})


def describe_failure(error: OSError) -> str:
    """Return the reason of a failed handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate was refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason is not None:
        return _REASONS.get(error.reason, f"TLS: {error.reason}")
    if isinstance(error, TimeoutError) or _TIMEOUT_WORDS in str(error):
        return f"no TLS handshake within {HANDSHAKE_S:g} s"
    return f"the client ended the handshake; perhaps {_REFUSED}"


def _complete(future: "asyncio.Future[None]") -> None:
    """Complete a future, unless it is done."""
    if not future.done():
        future.set_result(None)
