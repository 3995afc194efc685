"""The listeners of a broker: started in their order, stopped together."""

import asyncio
from collections.abc import Sequence

from raftlog.api.client_listener import ClientListener


class Listeners:
    """Listening sockets, at least one; gossip, the controller and the ready line give the first one's address."""

    def __init__(self, listeners: Sequence[ClientListener]) -> None:
        assert len({each.name for each in listeners}) == len(listeners) > 0, "each listener has a name of its own"
        self._listeners = listeners

    @property
    def advertised(self) -> str:
        """HOST:PORT of the first one, as clients reach it."""
        return self._listeners[0].advertised

    async def start(self) -> None:
        """Start all of them; raises `InvalidArgument` of the first that cannot listen. Call `stop` also then."""
        for listener in self._listeners:
            await listener.start()

    async def stop(self, grace_s: float, last_s: float) -> None:
        """Stop all of them at once, within the same times, also where one fails."""
        ends = [listener.stop(grace_s, last_s) for listener in self._listeners]
        failures = [end for end in await asyncio.gather(*ends, return_exceptions=True) if end is not None]
        if failures:
            raise failures[0]
