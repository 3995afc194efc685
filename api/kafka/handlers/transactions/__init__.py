"""Handlers of transactions: producers with a transactional id, their ends, and administration.

A broker answers NOT_COORDINATOR for a transactional id that it does not coordinate. Requests are not forwarded, because
clients find the coordinator and send to it directly."""

from raftlog.api.kafka.api import KafkaApi
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.handlers.transactions.administration import TransactionAdministration
from raftlog.api.kafka.handlers.transactions.offsets import TransactionOffsetHandlers
from raftlog.api.kafka.handlers.transactions.transactions import TransactionHandlers

__all__ = ["apis"]


def apis(context: KafkaContext) -> list[KafkaApi]:
    """Return the APIs of transactions."""
    return [
        *TransactionHandlers(context.broker).apis(),
        *TransactionOffsetHandlers(context.broker).apis(),
        *TransactionAdministration(context.broker).apis(),
    ]
