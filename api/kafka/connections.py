"""Connections of one Kafka listener: their number, periodic checks, events and end."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from raftlog.api.authentication import ListenerAuthentication
from raftlog.api.kafka.connection import KafkaConnection
from raftlog.api.kafka.dispatcher import Dispatcher
from raftlog.api.kafka.frame_protocol import SCRATCH_BYTES
from raftlog.api.kafka.login import KafkaLogin
from raftlog.api.kafka.settings import KafkaSettings
from raftlog.api.kafka.turns import LoopTurns
from raftlog.events import event
from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.security.principals import certificate_principal

logger = logging.getLogger(__name__)

SWEEP_S: Final = 5.0
"""Interval of the check for idle and stalled connections."""
LOGIN_CHECK_S: Final = 2.0
"""Interval of the check for connections whose login was late, whose user was changed or whose token has expired."""
_SWEPT_AT_ONCE: Final = 500
"""Connections that are checked in one turn of the event loop, in about 0.3 ms."""


class KafkaConnections:
    """Factory of the protocols of a listener's connections, and their shared state."""

    def __init__(
        self,
        name: str,
        settings: KafkaSettings,
        dispatcher: Dispatcher,
        requests: MemoryBudget,
        answers: MemoryBudget,
        authentication: ListenerAuthentication | None = None,
        *,
        has_certificates: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Prepare the connections of the listener `name`; call it in the event loop.

        `requests` and `answers` are memory budgets. `has_certificates` is whether clients may present certificates.
        `clock` measures how long requests take, in seconds."""
        self.name, self.settings, self.dispatcher = name, settings, dispatcher
        self._authentication = authentication
        self.requests, self.answers = requests, answers
        self._has_certificates = has_certificates
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.is_stopping = False
        self._loop = asyncio.get_running_loop()
        self.turns = LoopTurns(self._loop, clock)
        self._open: set[KafkaConnection] = set()
        self._lost_one = asyncio.Event()
        self._sweeping = [self._loop.create_task(self._sweep(), name=f"sweep of {name}")]
        if authentication is not None:
            self._sweeping.append(self._loop.create_task(self._check_logins(), name=f"check of logins of {name}"))

    def __call__(self) -> KafkaConnection:
        return KafkaConnection(self, self._loop)

    def __len__(self) -> int:
        return len(self._open)

    def register(self, connection: KafkaConnection) -> bool:
        """Register a connection; return false if it has to be closed: too many are open, or its address opens too many.

        The second limit is the quota on new connections."""
        counters = self.dispatcher.counters
        self._open.add(connection)
        counters.connections += 1
        rates = self.dispatcher.rates
        if len(self._open) > self.settings.connections_max or (
            rates.is_on and not rates.admits(connection.caller.address)
        ):
            counters.connections_refused += 1
            return False
        counters.connections_accepted += 1
        return True

    def remove(self, connection: KafkaConnection) -> None:
        """Remove a closed connection from the open ones."""
        self._open.discard(connection)
        self.dispatcher.counters.connections -= 1
        self._lost_one.set()

    def log_closed(self, connection: KafkaConnection, why: str) -> None:
        """Count and log a connection that is closed because of an error of the client."""
        self.dispatcher.counters.closed += 1
        caller = connection.caller
        event(
            logger,
            "kafka_connection_closed",
            listener=self.name,
            address=caller.address,
            client_id=caller.client_id,
            why=why,
        )

    def identify(self, transport: asyncio.BaseTransport) -> tuple[Caller, KafkaLogin | None]:
        """Return the caller of a new connection, and the state of its login; None where none is required.

        The name of its certificate, if it has one, is its principal."""
        peer, tls = transport.get_extra_info("peername"), transport.get_extra_info("ssl_object")
        address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        certified = certificate_principal(tls) if self._has_certificates else None
        caller, found = Caller(certified or ANONYMOUS, "", address, self.name), self._authentication
        if found is None:
            return caller, None
        offered = found.offered(is_encrypted=tls is not None)
        return caller, KafkaLogin(found.authenticator, offered, self._loop.time(), certified)

    async def _sweep(self) -> None:
        """Sweep all connections every `SWEEP_S` seconds, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            await self.sweep(self._loop.time())

    async def _check_logins(self) -> None:
        """Check regularly whether the logins of open connections have expired."""
        while True:
            await asyncio.sleep(LOGIN_CHECK_S)
            now = self._loop.time()
            for number, connection in enumerate(list(self._open), 1):
                connection.check_login(now)
                if number % _SWEPT_AT_ONCE == 0:
                    await asyncio.sleep(0)

    async def sweep(self, now: float) -> None:
        """Close the connections that are idle or too slow, as `KafkaConnection.sweep` decides.

        `now` is by the loop's clock, in seconds. Other work runs after every `_SWEPT_AT_ONCE` connections."""
        for number, connection in enumerate(list(self._open), 1):
            connection.sweep(now)
            if number % _SWEPT_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def stop(self, grace_s: float, last_s: float) -> None:
        """Accept requests for `last_s` more seconds, then end idle connections; close all after further `grace_s`.

        From now on a connection is ended after an answer, unless it has further requests that were read."""
        self.is_stopping = True
        await self._wait_until_empty(last_s)
        for connection in list(self._open):
            if connection.is_idle:
                connection.finish()
        await self._wait_until_empty(grace_s)
        for connection in list(self._open):
            connection.cancel()
            connection.abort()
        await self._wait_until_empty(grace_s)
        for task in self._sweeping:
            task.cancel()

    async def _wait_until_empty(self, seconds: float) -> None:
        """Wait until no connection is open, at most for `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._open:
                    self._lost_one.clear()
                    await self._lost_one.wait()
