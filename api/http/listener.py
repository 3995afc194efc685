"""HTTP listener of a broker."""

from raftlog.api.authentication import ListenerAuthentication
from raftlog.api.http.server.server import DEFAULTS, HttpServer, HttpSettings
from raftlog.partitions.addresses import join_host_port
from raftlog.partitions.broker import Broker
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.security.tls_files import ServerTls


class HttpListener:
    """A `ClientListener` for HTTP. With `advertised=""` clients receive the listening address."""

    def __init__(
        self,
        broker: Broker,
        host: str,
        port: int,
        advertised: str,
        requests: MemoryBudget,
        name: str = "http",
        settings: HttpSettings = DEFAULTS,
        tls: ServerTls | None = None,
        authentication: ListenerAuthentication | None = None,
    ) -> None:
        """Prepare a listener on `host` and `port` (0: any free port).

        `advertised` is its address for clients, empty for that of the socket. `requests` is the memory for requests."""
        self.name = name
        self._server = HttpServer(
            broker,
            settings,
            advertised=advertised,
            requests=requests,
            name=name,
            tls=tls,
            authentication=authentication,
        )
        self._scheme = "" if tls is None else "https://"
        self._host, self._port, self._advertised = host, port, advertised
        self.address = ""

    @property
    def advertised(self) -> str:
        """HOST:PORT, or `https://HOST:PORT` with TLS; valid after `start`."""
        return f"{self._scheme}{self._advertised or self.address}"

    @property
    def answers(self) -> MemoryBudget:
        """Memory budget for answers, which is shared with further listeners of the broker."""
        return self._server.answers

    async def start(self) -> None:
        """Listen, and set `address` to the address of the socket."""
        self.address = join_host_port(*await self._server.start(self._host, self._port))

    async def stop(self, grace_s: float, last_s: float) -> None:
        """Stop accepting connections.

        Open connections accept requests for `last_s` seconds; then requests have `grace_s` seconds to end."""
        await self._server.stop(grace_s, last_s)
