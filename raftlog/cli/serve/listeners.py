"""The listeners of a broker: started in their order, stopped together."""

import asyncio
import logging
from collections.abc import Sequence

from raftlog.api.client_listener import ClientListener
from raftlog.errors import InvalidArgument

_logger = logging.getLogger(__name__)


class Listeners:
    """Listeners of HTTP and Kafka; gossip, the controller and the ready line have the address of HTTP.

    `is_kafka_optional`: a Kafka address that cannot be used is logged, and the broker starts without it."""

    def __init__(
        self, http: ClientListener, kafka: Sequence[ClientListener] = (), *, is_kafka_optional: bool = False
    ) -> None:
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
        """Start all listeners; raises `InvalidArgument` of the first that cannot listen. Call `stop` even then."""
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
        """Stop all listeners concurrently, within the given times, even if one fails."""
        ends = [listener.stop(grace_s, last_s) for listener in self._all]
        failures = [end for end in await asyncio.gather(*ends, return_exceptions=True) if end is not None]
        if failures:
            raise failures[0]
