"""Metrics of the transactions that this broker coordinates."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import by_labels, single, times
from raftlog.partitions.broker import Broker
from raftlog.partitions.transactions.service import TransactionFigures


async def transaction_families(broker: Broker) -> list[Metric]:
    """Return the present state of transactional ids, and the totals of ended transactions."""
    return list(_families(broker, await broker.transactions.local_figures()))


def _families(broker: Broker, figures: TransactionFigures) -> Iterator[Metric]:
    """Yield the metrics of transactions."""
    yield by_labels("transactional_ids", [([state], count) for state, count in figures.by_state.items()])
    yield single("transaction_oldest_age_seconds", figures.oldest_age_s)
    totals = broker.transactions.counters
    ended = [(["committed"], totals.committed), (["aborted"], totals.aborted)]
    yield by_labels("transactions_total", ended)
    fenced = [(["timeout"], totals.timed_out), (["producer"], totals.fenced)]
    yield by_labels("transactions_fenced_total", fenced)
    yield times("transaction_end_seconds", totals.end_times)
