"""Interface of a broker's client listeners: sockets, a protocol, and an advertised address.

`raftlog serve` starts the listeners of a broker one after another, and stops all of them at once. They share the
memory budget for request bodies, which is created before them, and the file descriptors that the log does not use.
docs/CONTRIBUTING.md describes how to add one."""

import resource
from typing import Final, Protocol

_OTHER_FILES: Final = 256
"""Descriptors for other uses than segments and clients: journal, other brokers, listeners, spools."""


def limit_connections(wanted: int, open_files_max: int) -> int:
    """Return `wanted`, or fewer connections if segment files would have too few descriptors otherwise."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(limit - open_files_max - _OTHER_FILES, limit // 4))


def divide_connections(http: int, kafka: int, kafka_listeners: int, open_files_max: int) -> tuple[int, int]:
    """Return the connection limits of the HTTP listener and of each Kafka listener, within `limit_connections`.

    `http` and `kafka` are the configured limits of one listener each; they are reduced if descriptors are scarce.
    HTTP, which operators use, gets at least a quarter."""
    wanted = http + kafka * kafka_listeners
    left = limit_connections(wanted, open_files_max)
    if not kafka_listeners or left == wanted:
        return min(http, left), kafka
    each = min(kafka, left * 3 // 4 // kafka_listeners)
    return min(http, left - each * kafka_listeners), each


class ClientListener(Protocol):
    """Interface of a listener that accepts connections of clients."""

    name: str
    """Name of the listener among those of its broker, for log lines and `Caller.listener`."""

    @property
    def address(self) -> str:
        """HOST:PORT on which it listens; valid after `start`."""

    @property
    def advertised(self) -> str:
        """HOST:PORT that clients connect to, with `https://` for HTTP with TLS; valid after `start`."""

    async def start(self) -> None:
        """Listen on the address; raises `InvalidArgument` when that is impossible."""

    async def stop(self, grace_s: float, last_s: float) -> None:
        """Stop accepting connections; open connections accept requests for `last_s` more seconds.

        Pending requests then have `grace_s` seconds to end; after that all connections are closed. Does nothing unless
        the listener was started.
        """
