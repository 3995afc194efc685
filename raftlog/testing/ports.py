"""Ports of loopback that stay ours, also while nobody listens on them.

A port that was free a moment ago may be somebody else's when a broker binds it, and again between its death and its
next start. So the port stays bound here, without listening, for as long as the cluster lives: Linux lets a broker bind
it as well (both sockets have SO_REUSEADDR and only one listens) and gives it to nobody who asks for any free port.
"""

import socket
from types import TracebackType
from typing import NamedTuple, Self

from raftlog.testing.errors import BrokerFailed

HOST = "127.0.0.1"
_ATTEMPTS = 50


def hold_port() -> socket.socket:
    """A socket that keeps a free port; closing it gives the port back."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((HOST, 0))
    return held


def listen() -> socket.socket:
    """A socket that listens on a free port."""
    return socket.create_server((HOST, 0), backlog=128)


def address_of(bound: socket.socket) -> str:
    """`HOST:PORT`."""
    host, port = bound.getsockname()[:2]
    return f"{host}:{port}"


class GossipPort(NamedTuple):
    """A port that is ours for datagrams and for streams, in a `with` block or until `close`."""

    udp: socket.socket
    tcp: socket.socket

    @property
    def address(self) -> str:
        return address_of(self.tcp)

    def close(self) -> None:
        self.udp.close()
        self.tcp.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def hold_gossip_port() -> GossipPort:
    """A port that is free for both. A broker can bind it once `udp` is closed: datagrams go to one socket only."""
    for _ in range(_ATTEMPTS):
        tcp = hold_port()
        udp = socket.socket(type=socket.SOCK_DGRAM)
        try:
            udp.bind(tcp.getsockname())
        except OSError:
            udp.close()
            tcp.close()
            continue
        return GossipPort(udp, tcp)
    raise BrokerFailed("no port of loopback is free for UDP and TCP")
