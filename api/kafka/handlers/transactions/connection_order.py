"""Order of the connections of transactional producers, against requests that arrive late (KAFKA-17754).

    a request of a producer is refused, and its connection closed, if the connection is older than
      the newest connection that the same producer id and epoch have used here
      the time at which this broker became coordinator, if an earlier coordinator began the open transaction, or may
      have begun it, because this one still loads

A client that gave up on a request closes its connection, and may begin the next transaction on another one. Without
this check the delayed request could end the new transaction, or add offsets of the earlier one to it, because both have
the same producer epoch. The order is in memory of the process: a producer uses one connection to each coordinator.
Called by the handlers."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from raftlog.api.kafka.api import KafkaRequest
from raftlog.api.kafka.dispatcher import ConnectionRefused
from raftlog.partitions.groups.results import TransactionalProducer

_T = TypeVar("_T")
PRODUCERS_MAX: Final = 100_000
"""Producers whose connections are remembered; the least recently used ones are dropped."""


class ConnectionOrder:
    """Newest connection of each producer to one kind of coordinator, to refuse late requests of older ones."""

    def __init__(self, taken_over_at: Callable[[str], float] | None = None) -> None:
        """Begin without connections.

        `taken_over_at` returns when this coordinator took over the open transaction of an id; 0 if it began here."""
        self._taken_over_at = taken_over_at or (lambda transactional_id: 0.0)
        self._newest: OrderedDict[str, tuple[TransactionalProducer, float]] = OrderedDict()
        """Producer, and the time at which its newest connection was opened, by transactional id."""

    async def run(
        self, request: KafkaRequest, producer: TransactionalProducer, work: Callable[[], Awaitable[_T]]
    ) -> _T:
        """Return the result of `work` for a request. Raises `ConnectionRefused` if its connection is too old."""
        connection = request.connection
        if connection is not None:
            self.check(producer, connection.opened_at)
        result = await work()
        if connection is not None:
            self.record(producer, connection.opened_at)
        return result

    def check(self, producer: TransactionalProducer, opened_at: float) -> None:
        """Raise `ConnectionRefused` for a connection that is older than the producer's newest one or the coordinator.

        `opened_at`: time of the loop at which the request's connection was opened."""
        known, newest = self._newest.get(producer.transactional_id, (producer, opened_at))
        taken_over = self._taken_over_at(producer.transactional_id)
        if (known == producer and opened_at < newest) or opened_at < taken_over:
            raise ConnectionRefused(
                f"a request of the transactional id {producer.transactional_id!r} came late: its connection is older "
                "than the newest one of the producer, or than the coordinator"
            )

    def record(self, producer: TransactionalProducer, opened_at: float) -> None:
        """Record that a request of the producer was successful on a connection that was opened at `opened_at`."""
        known, newest = self._newest.pop(producer.transactional_id, (producer, opened_at))
        self._newest[producer.transactional_id] = producer, max(newest, opened_at) if known == producer else opened_at
        if len(self._newest) > PRODUCERS_MAX:
            self._newest.popitem(last=False)
