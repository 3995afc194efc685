"""Kafka listener of a broker."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from raftlog.api.authentication import ListenerAuthentication
from raftlog.api.kafka.api import KafkaApi
from raftlog.api.kafka.connections import KafkaConnections
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.dispatcher import Dispatcher
from raftlog.api.kafka.handlers import admin, data, groups, security, transactions
from raftlog.api.kafka.handlers.security.logins import RAW
from raftlog.api.kafka.settings import DEFAULTS, KafkaSettings
from raftlog.api.sockets import ListeningSockets, bind, listen_error
from raftlog.partitions.addresses import join_host_port
from raftlog.partitions.broker import Broker
from raftlog.runtime.memory_budget import MemoryBudget, MemoryShares
from raftlog.security.tls_files import ServerTls

ROOMS: Final[Sequence[Callable[[KafkaContext], list[KafkaApi]]]] = (
    data.apis,
    groups.apis,
    transactions.apis,
    admin.apis,
    security.apis,
)
"""The function `apis` of each package in `handlers`."""
_BACKLOG: Final = 1024


class KafkaListener:
    """A `ClientListener` for Kafka's protocol. Pass `advertised` as "" if the listening address is reachable.

    `authentication`: login that its clients need; None: no login."""

    def __init__(
        self,
        broker: Broker,
        host: str,
        port: int,
        advertised: str,
        requests: MemoryBudget,
        name: str = "kafka",
        settings: KafkaSettings = DEFAULTS,
        answers: MemoryBudget | None = None,
        authentication: ListenerAuthentication | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        """Prepare a listener on `host` and `port` (0: any free port).

        `advertised` is its address for clients, empty for that of the socket. `requests` and `answers` are memory
        budgets."""
        self.name = name
        self._authentication, self._tls = authentication, tls
        self._broker, self._settings = broker, settings
        self._requests = requests
        self._answers = answers or MemoryBudget(MemoryShares.divide(broker.settings.memory_budget_bytes).answers)
        self._host, self._port, self._advertised = host, port, advertised
        self.address = ""
        self._sockets: ListeningSockets | None = None
        self._connections: KafkaConnections | None = None
        self._stopping: asyncio.Future[None]

    @property
    def advertised(self) -> str:
        """Address for clients."""
        return self._advertised or self.address

    async def start(self) -> None:
        """Listen, and set `address` to the address of the socket. Raises `InvalidArgument` if it cannot listen."""
        self._stopping = asyncio.get_running_loop().create_future()
        required = self._authentication
        context = KafkaContext(self._broker, self.name, self._settings, self._answers, required, self._stopping)
        counters = self._broker.measuring.counters.kafka
        rates = self._broker.security.rates
        dispatcher = Dispatcher(served_apis(context), counters, None if required is None else RAW, rates)
        connections = KafkaConnections(
            self.name,
            self._settings,
            dispatcher,
            self._requests,
            self._answers,
            required,
            has_certificates=self._tls is not None and self._tls.asks_for_certificates,
        )
        try:
            self._sockets = await bind(connections, self._host, self._port, _BACKLOG, self._tls, self.name)
            await self._sockets.start_serving()
        except OSError as error:
            await connections.stop(0, 0)
            raise listen_error(self._host, self._port, error) from error
        self._connections = connections
        self.address = join_host_port(*self._sockets.sockets[0].getsockname()[:2])

    async def stop(self, grace_s: float, last_s: float) -> None:
        """Refuse new connections, answer waiting fetches, and end the open connections; see `KafkaConnections.stop`."""
        if self._sockets is None or self._connections is None:
            return
        self._sockets.close()
        self._broker.wake_fetches()
        if not self._stopping.done():
            self._stopping.set_result(None)
        await self._connections.stop(grace_s, last_s)
        await self._sockets.wait_closed()
        self._sockets = self._connections = None


def served_apis(context: KafkaContext) -> Sequence[KafkaApi]:
    """Return the APIs of all packages of handlers; `dispatcher` adds ApiVersions."""
    return [api for apis in ROOMS for api in apis(context)]
