"""The test's side of the proxy: starts it, tells it what is cut, and ends it."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterable
from typing import Any, Final

import orjson

from raftlog.testing import starting
from raftlog.testing.errors import BrokerFailed
from raftlog.testing.ports import HOST, address_of, hold_gossip_port, listen

_ANSWER_SECONDS_MAX: Final = 15.0
_END_SECONDS_MAX: Final = 5.0


class Network:
    """Ways between brokers that can be cut. Connections wait in the sockets until the process behind has started."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_ANSWER_SECONDS_MAX)
        self._lock = threading.Lock()
        with theirs:
            self._process = starting.start(
                [sys.executable, "-m", "raftlog.testing.proxy", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def add(self, node: int, port: int) -> str:
        """A new address that leads to the node, which listens on a port of loopback."""
        with listen() as listening:
            self._tell({"listen": node, "target": [HOST, port]}, listening)
            return address_of(listening)

    def add_gossip(self, node: int, port: int) -> str:
        """A new address that leads to the gossip of the node, which is bound to a port of loopback."""
        with hold_gossip_port() as held:
            held.tcp.listen()
            self._tell({"gossip": node, "target": [HOST, port]}, held.udp, held.tcp)
            return held.address

    def cut(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Exactly these ways (sender, receiver) are cut when this returns."""
        self._order({"cut": sorted(pairs)})

    def set_gossip(self, pairs: Iterable[tuple[int, int]], loss: float) -> None:
        """Exactly these ways of gossip are cut when this returns, and that share of its datagrams is lost."""
        self._order({"gossip_cut": sorted(pairs), "loss": loss})

    def _order(self, order: dict[str, Any]) -> None:
        """Tell it, and wait until it was done."""
        with self._lock:
            self._tell(order)
            try:
                answer = self._control.recv(16)
            except TimeoutError:
                answer = b""
            if not answer:
                raise BrokerFailed("the proxy between the brokers does not answer")

    def guard(self, pids: Iterable[int]) -> None:
        """Exactly these processes, with their groups, are killed should this one end without `close`."""
        self._tell({"guard": sorted(pids)})

    def close(self) -> None:
        """End the proxy and every connection through it."""
        self._control.close()
        try:
            self._process.wait(_END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tell(self, order: dict[str, Any], *sockets: socket.socket) -> None:
        try:
            socket.send_fds(self._control, [orjson.dumps(order)], [each.fileno() for each in sockets])
        except OSError as error:
            raise BrokerFailed(f"the proxy between the brokers is gone: {error}") from error
