"""Ports of loopback that stay reserved, even while no broker listens on them.

Another process may bind a free port before a broker does, or between a broker's end and its next start. So the port
stays bound here, without listening, as long as the cluster exists: Linux lets a broker bind it as well (both sockets
have SO_REUSEADDR and only one listens) and does not choose it for a bind to port 0."""

import socket
from typing import NamedTuple, Self

from raftlog.testing.errors import BrokerFailed

HOST = "127.0.0.1"
_ATTEMPTS = 50


def reserve_port() -> socket.socket:
    """Return a socket that reserves a free port until it is closed."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((HOST, 0))
    return held


def listen_on_free_port() -> socket.socket:
    """Return a socket that listens on a free port."""
    return socket.create_server((HOST, 0), backlog=128)


def address_of(bound: socket.socket) -> str:
    """Return the address of a socket as `HOST:PORT`."""
    host, port = bound.getsockname()[:2]
    return f"{host}:{port}"


class GossipPort(NamedTuple):
    """Port that is reserved for UDP and TCP until `close` or the end of the `with` block."""

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

    def __exit__(self, *raised: object) -> None:
        self.close()


def reserve_gossip_port() -> GossipPort:
    """Reserve a port that is free for UDP and TCP.

    A broker can bind it once `udp` is closed: the datagrams of a port go to one socket only."""
    for _ in range(_ATTEMPTS):
        tcp = reserve_port()
        udp = socket.socket(type=socket.SOCK_DGRAM)
        try:
            udp.bind(tcp.getsockname())
        except OSError:
            udp.close()
            tcp.close()
            continue
        return GossipPort(udp, tcp)
    raise BrokerFailed("no port of loopback is free for UDP and TCP")
