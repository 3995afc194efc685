"""HTTP server: sockets and connections. `app` answers the requests."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from raftlog.api.authentication import ListenerAuthentication
from raftlog.api.client_listener import limit_connections
from raftlog.api.http.console.history import History
from raftlog.api.http.console.history_sampler import HistorySampler
from raftlog.api.http.server.app import HttpApp
from raftlog.api.http.server.bodies import BodyReader
from raftlog.api.http.server.connections import ConnectionEnds, Connections
from raftlog.api.http.server.handlers import ConsoleContext
from raftlog.api.http.server.logins import HttpLogins
from raftlog.api.http.server.origins import OriginPolicy, allowed_host, is_loopback, split_host
from raftlog.api.sockets import ListeningSockets, bind, listen_error
from raftlog.partitions.broker import Broker
from raftlog.runtime.memory_budget import MemoryBudget, MemoryShares
from raftlog.security.tls_files import ServerTls
from raftlog.setting_bounds import bounded_field, check_bounds
from raftlog.topic_config import DAY_MS, KIB, MIB

_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - not to be taken for names
_LINGER_S = 2.0
_BACKLOG = 1024
_CUT_OFF_S = 0.05
"""Time for cancelled requests to end after the grace period."""
_RESERVE_DIVISOR: Final = 8
"""Part of the memory for requests that is reserved for small ones: 12 MiB of the default."""


CONSOLE_ON: Final = "on"
CONSOLE_OFF: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Bounds of an HTTP server, and allowed hosts; each is an option of `raftlog serve`."""

    body_bytes_max: int = bounded_field(64 * MIB, 1, 1 << 40)
    """Maximum size of a request body."""
    body_timeout_ms: int = bounded_field(60_000, 1, DAY_MS)
    """Maximum time for a body to arrive."""
    body_bytes_per_s_min: int = bounded_field(16 * KIB, 0, 1 << 40)
    """Rate below which a body is refused after five seconds."""
    keepalive_timeout_s: float = bounded_field(75.0, 0.01, 86_400)
    """Idle time after which a connection is closed."""
    http_connections_max: int = bounded_field(10_000, 1, 1_000_000)
    """Maximum number of client connections; fewer where descriptors are short."""
    metrics_partitions_max: int = bounded_field(1_000, 0, 1_000_000)
    """Maximum number of partitions with series of their own in `/metrics`."""
    allowed_hosts: Sequence[str] = ()
    """Hosts that clients may use, besides loopback and advertised addresses."""
    console: str = CONSOLE_ON
    """Whether the console is served: `on` or `none`."""
    console_writes: bool = False
    """Whether pages of the console may change anything."""

    def __post_init__(self) -> None:
        """Raise `InvalidArgument` for a value out of range."""
        check_bounds(self)


DEFAULTS: Final = HttpSettings()


class HttpServer:
    """HTTP server of one broker at one address. The broker is opened before `start` and closed after `stop`."""

    def __init__(
        self,
        broker: Broker,
        settings: HttpSettings = DEFAULTS,
        *,
        advertised: str = "",
        requests: MemoryBudget | None = None,
        name: str = "http",
        tls: ServerTls | None = None,
        authentication: ListenerAuthentication | None = None,
    ) -> None:
        """Create a server that does not listen yet. Raises `InvalidArgument`.

        `name`: name of this listener. `requests`: memory for request bodies, shared with other listeners.
        `advertised`: HOST:PORT for clients, if it differs from the address on which the server listens. `tls`: None
        for plain text. `authentication`: login that clients need; None: no login."""
        self._broker, self._name, self._tls = broker, name, tls
        self._advertised = [split_host(advertised)[0]] if advertised else []
        self._allowed_hosts = [allowed_host(text) for text in settings.allowed_hosts]
        self._ends = ConnectionEnds()
        memory = requests or requests_budget(broker)
        self.bodies = BodyReader(
            settings.body_bytes_max, memory, settings.body_timeout_ms, settings.body_bytes_per_s_min
        )
        self._authentication = authentication
        logins = None if authentication is None else HttpLogins(authentication)
        console = ConsoleContext(History(), settings.console != CONSOLE_OFF, settings.console_writes)
        self._app = HttpApp(broker, self.bodies, self._ends, settings.metrics_partitions_max, logins, console=console)
        self.answers = self._app.answers
        self.connections_max = limit_connections(settings.http_connections_max, broker.settings.open_files_max)
        self._keepalive_timeout_s = settings.keepalive_timeout_s
        self._sockets: ListeningSockets | None = None
        self._connections: Connections | None = None
        self._cutting_off: asyncio.Task[None] | None = None
        self._sampler = HistorySampler(broker, self._app.request_metrics, console.history) if console.is_on else None
        self._sampling: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen (port 0: a free port) and return the address. Raises `InvalidArgument` when that is impossible."""
        self._connections = Connections(
            self._ends,
            self._app.handle,
            self.connections_max,
            self._name,
            self._app,
            has_certificates=self._tls is not None and self._tls.asks_for_certificates,
            rates=self._broker.security.rates,
            access_log=None,
            keepalive_timeout=self._keepalive_timeout_s,
            lingering_time=_LINGER_S,
            tcp_keepalive=True,
            auto_decompress=False,
        )
        try:
            self._sockets = await bind(self._connections, host, port, _BACKLOG, self._tls, self._name)
            addresses = [socket.getsockname() for socket in self._sockets.sockets]
            self._app.origins = self._origin_policy(host, [address[0] for address in addresses])
            await self._sockets.start_serving()
        except OSError as error:
            raise listen_error(host, port, error) from error
        if self._authentication is not None:
            checks = self._connections.cut_off(self._authentication.authenticator)
            self._cutting_off = asyncio.get_running_loop().create_task(checks, name="check of logins")
        if self._sampler is not None:
            self._sampling = asyncio.get_running_loop().create_task(self._sampler.run(), name="history of the console")
        return addresses[0][0], addresses[0][1]

    def _origin_policy(self, host: str, listening: Sequence[str]) -> OriginPolicy:
        """Return the policy of hosts: all hosts if other machines can connect, unless allowed hosts are set.

        Clients on other machines use names for this machine that the server cannot know."""
        own = [name for name in (host, *listening) if name and name not in _WILDCARDS]
        is_host_checked = bool(self._allowed_hosts) or all(map(is_loopback, listening))
        return OriginPolicy((*self._allowed_hosts, *self._advertised, *own), is_host_checked=is_host_checked)

    async def stop(self, grace_s: float = 3.0, last_s: float = 0.0) -> None:
        """Stop accepting connections, answer waiting fetches now, and give other requests `grace_s` to end.

        For `last_s` before that, open connections accept requests, and each connection is closed after its next
        answer. So a client that sends all the time moves to another broker without a pending request. A connection
        that is closed during a request would leave an unknown outcome."""
        if self._sockets is None or self._connections is None:
            return
        self._sockets.close()
        self._broker.wake_fetches()
        self._ends.stop()
        await self._connections.wait_until_empty(last_s)
        await self._connections.close_idle(grace_s)
        await self._connections.shutdown(_CUT_OFF_S)
        for task in (self._cutting_off, self._sampling):
            if task is not None:
                task.cancel()
        await self._sockets.wait_closed()
        self._sockets = self._connections = None


def requests_budget(broker: Broker) -> MemoryBudget:
    """Return a new budget for request bodies, which all listeners of a broker share."""
    limit = MemoryShares.divide(broker.settings.memory_budget_bytes).requests
    return MemoryBudget(limit, limit // _RESERVE_DIVISOR)
