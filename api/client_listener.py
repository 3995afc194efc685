"""Protocol of a broker's client listeners: sockets, a protocol, and the advertised address.

`raftlog serve` starts the listeners of a broker one after another, and stops all of them at once. They share the
budget for bodies of requests, which is made before them, and the descriptors that the log's own files leave.
docs/CONTRIBUTING.md describes how to add one."""

import resource
from typing import Final, Protocol

_OTHER_FILES: Final = 256
"""Descriptors beside those of segments and clients: journal, other brokers, listeners, spools."""


def connections_within(wanted: int, open_files_max: int) -> int:
    """Return the number of connections that leaves enough descriptors for the log's own files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(limit - open_files_max - _OTHER_FILES, limit // 4))


def shared_connections(http: int, kafka: int, kafka_listeners: int, open_files_max: int) -> tuple[int, int]:
    """Return the connections of the HTTP listener and of each Kafka listener, which together leave enough descriptors.

    A quarter at least is for HTTP, which operators use."""
    wanted = http + kafka * kafka_listeners
    left = connections_within(wanted, open_files_max)
    if not kafka_listeners or left == wanted:
        return min(http, left), kafka
    each = min(kafka, left * 3 // 4 // kafka_listeners)
    return min(http, left - each * kafka_listeners), each


class ClientListener(Protocol):
    """Listener of a broker for clients."""

    name: str
    """Distinguishes the listeners of a broker, in log lines and for `Caller.listener`."""

    @property
    def address(self) -> str:
        """HOST:PORT where it listens, once it was started."""

    @property
    def advertised(self) -> str:
        """HOST:PORT by which clients reach it, once it was started."""

    async def start(self) -> None:
        """Listen. Raises `InvalidArgument` when the address cannot be had."""

    async def stop(self, grace_s: float, last_s: float) -> None:
        """Accept nothing more, take requests on open connections for `last_s`, and end all of them after `grace_s`.

        Does nothing unless it was started.
        """
