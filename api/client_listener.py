"""Protocol of a broker's client listeners: sockets, a protocol, and the advertised address.

`raftlog serve` starts the listeners of a broker one after another, and stops all of them at once. They share the
budget for bodies of requests, which is made before them. docs/CONTRIBUTING.md describes how to add one."""

from typing import Protocol


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
