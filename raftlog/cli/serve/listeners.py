"""Listeners of a broker: made from the plan, started in their order, stopped together."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from raftlog.api.client_listener import ClientListener, divide_connections
from raftlog.api.http.listener import HttpListener
from raftlog.api.http.server.server import requests_budget
from raftlog.api.kafka.listener import KafkaListener
from raftlog.cli.serve.cluster_options import is_loopback
from raftlog.cli.serve.listener_plan import ListenerPlan
from raftlog.cli.serve.tls_options import HTTP, RPC
from raftlog.errors import InvalidArgument
from raftlog.events import event
from raftlog.partitions.addresses import join_host_port
from raftlog.partitions.broker import Broker
from raftlog.partitions.security.listener_security import ListenerSecurity
from raftlog.runtime.rpc.tls import TlsContexts

_logger = logging.getLogger(__name__)


class Listeners:
    """HTTP listener and Kafka listeners; gossip, the controller and the ready line name the address of HTTP.

    `is_kafka_optional`: a Kafka listener that cannot listen is logged, and the broker starts without it."""

    def __init__(
        self, http: ClientListener, kafka: Sequence[ClientListener] = (), *, is_kafka_optional: bool = False
    ) -> None:
        """Prepare the listeners; with `is_kafka_optional` a Kafka listener that cannot start is left out."""
        self._all = [http, *kafka]
        assert len({each.name for each in self._all}) == len(self._all), "each listener has a name of its own"
        self._http, self._kafka, self._is_kafka_optional = http, kafka, is_kafka_optional
        self.kafka: dict[str, str] = {}
        """HOST:PORT of each started Kafka listener by name, as clients reach it, in the order of the flags."""

    @property
    def advertised(self) -> str:
        """HOST:PORT of the HTTP listener, as clients reach it."""
        return self._http.advertised

    @property
    def first_kafka(self) -> str | None:
        """HOST:PORT of the first Kafka listener; None without one."""
        return next(iter(self.kafka.values()), None)

    async def start(self) -> None:
        """Start all listeners; raises the `InvalidArgument` of the first that cannot listen. Call `stop` even then."""
        await self._http.start()
        for listener in self._kafka:
            try:
                await listener.start()
            except InvalidArgument as error:
                if not self._is_kafka_optional:
                    raise
                _logger.warning("Kafka is off: %s (--kafka HOST:PORT); --kafka none switches it off", error)
            else:
                self.kafka[listener.name] = listener.advertised

    async def stop(self, grace_s: float, last_s: float) -> None:
        """Stop all listeners concurrently, within the given times; raises the first error after all have stopped."""
        ends = [listener.stop(grace_s, last_s) for listener in self._all]
        failures = [end for end in await asyncio.gather(*ends, return_exceptions=True) if end is not None]
        if failures:
            raise failures[0]


def describe_listeners(
    plan: ListenerPlan, rpc: tuple[str, int] | None, rpc_tls: TlsContexts | None
) -> list[ListenerSecurity]:
    """Return the protection of each listener; brokers authenticate each other also without TLS."""
    found = []
    for name, host, port in (
        (HTTP, plan.host, plan.port),
        *((each.name, each.host, each.port) for each in plan.kafka.listeners),
    ):
        tls = plan.tls.get(name)
        lacks = ["TLS"] * (tls is None) + ["logins"] * (not plan.logins.identifies(name, plan.tls))
        found.append(ListenerSecurity(name, join_host_port(host, port), () if is_loopback(host) else lacks, tls))
    if rpc is not None:
        lacks = ["TLS"] * (rpc_tls is None and not is_loopback(rpc[0]))
        found.append(ListenerSecurity(RPC, join_host_port(*rpc), lacks, rpc_tls))
    return found


def make_listeners(broker: Broker, plan: ListenerPlan) -> Listeners:
    """Return the planned listeners, which share file descriptors and the memory for requests and answers."""
    requests, kafka = requests_budget(broker), plan.kafka
    http_connections, kafka_connections = divide_connections(
        plan.http.http_connections_max,
        kafka.settings.connections_max,
        len(kafka.listeners),
        broker.settings.open_files_max,
    )
    authenticator = broker.security.authenticator
    plan.logins.prepare(authenticator)
    broker.security.listeners.all = describe_listeners(plan, broker.settings.rpc, broker.settings.tls)
    for each in broker.security.listeners.all:
        if each.lacks:
            event(_logger, "listener_insecure", listener=each.name, address=each.address, lacks=each.missing)
    http = HttpListener(
        broker,
        plan.host,
        plan.port,
        broker.settings.advertise_http,
        requests,
        settings=replace(plan.http, http_connections_max=http_connections),
        tls=plan.tls.get(HTTP),
        authentication=plan.logins.requirement(HTTP, authenticator),
    )
    settings = kafka.settings._replace(connections_max=kafka_connections)
    more = [
        KafkaListener(
            broker,
            each.host,
            each.port,
            each.advertised,
            requests,
            each.name,
            settings,
            http.answers,
            tls=plan.tls.get(each.name),
            authentication=plan.logins.requirement(each.name, authenticator),
        )
        for each in kafka.listeners
    ]
    return Listeners(http, more, is_kafka_optional=kafka.is_optional)
