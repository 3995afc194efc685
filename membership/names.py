"""Resolution of the host names of members, in the background: sending a datagram must not wait for a resolver.

An unknown name, or one resolved more than `FRESH_S` ago, is resolved in the background. Meanwhile datagrams to an
unknown name are dropped, and an old address stays in use. Called by the wire."""

import asyncio
import ipaddress
import socket
from typing import Final

FRESH_S: Final = 30.0
NAMES_MAX: Final = 1_024


class NameResolver:
    """Cache of resolved host names; one for each wire, on one loop."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str | None, float]] = {}
        """Address of each name (None: it has none), and the time of its last look-up."""
        self._looking: dict[str, asyncio.Task[None]] = {}

    def find_ip(self, host: str) -> str | None:
        """Return the IP address of a host; None while it is not resolved."""
        found = self._found.get(host)
        if found is None and _is_ip(host):
            found = host, float("inf")
            self._store(host, *found)
        if found is None or asyncio.get_running_loop().time() - found[1] > FRESH_S:
            self._look_up(host)
        return None if found is None else found[0]

    def close(self) -> None:
        """Cancel all look-ups."""
        for task in self._looking.values():
            task.cancel()

    def _look_up(self, host: str) -> None:
        """Begin to resolve a host in the background, unless this already runs or too many do."""
        if host not in self._looking and len(self._looking) < NAMES_MAX:
            task = asyncio.get_running_loop().create_task(self._find(host), name=f"where {host} is")
            self._looking[host] = task
            task.add_done_callback(lambda _: self._looking.pop(host, None))

    async def _find(self, host: str) -> None:
        """Resolve a host and store the result; after a failure keep the former address."""
        loop = asyncio.get_running_loop()
        before, _ = self._found.get(host, (None, 0.0))
        try:
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_DGRAM, proto=socket.IPPROTO_UDP)
            self._store(host, str(found[0][4][0]), loop.time())
        except (OSError, UnicodeError):
            self._store(host, before, loop.time())

    def _store(self, host: str, ip: str | None, at: float) -> None:
        """Store the result of a look-up; forget the oldest one above `NAMES_MAX`."""
        self._found.pop(host, None)
        self._found[host] = ip, at
        if len(self._found) > NAMES_MAX:
            del self._found[next(iter(self._found))]


def _is_ip(host: str) -> bool:
    """Return whether a host is a numeric IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
