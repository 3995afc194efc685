"""Metrics of the transactions that this broker coordinates."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import counters, gauge, gauges, histogram
from raftlog.partitions.broker import Broker
from raftlog.partitions.transactions.service import TransactionFigures


async def transaction_families(broker: Broker) -> list[Metric]:
    """Return the present state of transactional ids, and the totals of ended transactions."""
    return list(_families(broker, await broker.transactions.local_figures()))


def _families(broker: Broker, figures: TransactionFigures) -> Iterator[Metric]:
    by_state = [([state], count) for state, count in figures.by_state.items()]
    yield gauges("transactional_ids", "Transactional ids coordinated here, by state.", ["state"], by_state)
    yield gauge(
        "transaction_oldest_seconds",
        "Age of the oldest transaction coordinated here that has not ended; 0 without one.",
        figures.oldest_age_s,
    )
    totals = broker.transactions.counters
    yield counters(
        "transactions",
        "Transactions coordinated here that ended, by result.",
        ["result"],
        [(["committed"], totals.committed), (["aborted"], totals.aborted)],
    )
    yield counters(
        "transactions_fenced",
        "Transactions coordinated here that were aborted for another reason than their producer's request.",
        ["reason"],
        [(["timeout"], totals.timed_out), (["producer"], totals.fenced)],
    )
    yield histogram(
        "transaction_end_seconds",
        "Times from the stored decision until all markers are written and the end is stored.",
        totals.end_times,
    )
