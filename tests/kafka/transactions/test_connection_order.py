"""Requests of transactional producers on connections that are too old."""

from typing import Any

import pytest

from raftlog.api.kafka.dispatcher import ConnectionRefused
from raftlog.api.kafka.handlers.transactions import connection_order
from raftlog.api.kafka.handlers.transactions.connection_order import ConnectionOrder
from raftlog.partitions.groups.results import TransactionalProducer

PRODUCER = TransactionalProducer("tx", 7, 2)


class Coordinators:
    """Coordinator that took over a transaction at this time."""

    taken_over = 0.0

    def taken_over_at(self, transactional_id: str) -> float:
        assert transactional_id == PRODUCER.transactional_id
        return self.taken_over


@pytest.fixture
def coordinators() -> Coordinators:
    return Coordinators()


@pytest.fixture
def order(coordinators: Any) -> ConnectionOrder:
    return ConnectionOrder(coordinators.taken_over_at)


def test_an_older_connection_of_the_same_epoch_is_refused(order: ConnectionOrder) -> None:
    order.check(PRODUCER, 5.0)
    order.record(PRODUCER, 5.0)
    order.record(PRODUCER, 4.0)
    for opened_at in (5.0, 6.0):
        order.check(PRODUCER, opened_at)
    with pytest.raises(ConnectionRefused):
        order.check(PRODUCER, 4.9)
    order.check(PRODUCER._replace(epoch=3), 1.0)
    order.record(PRODUCER._replace(epoch=3), 1.0)
    order.check(PRODUCER._replace(epoch=3), 1.0)


def test_a_connection_older_than_a_new_coordinator_is_refused(
    order: ConnectionOrder, coordinators: Coordinators
) -> None:
    """The transaction may have begun after the request was sent, at another coordinator in between."""
    coordinators.taken_over = 5.0
    with pytest.raises(ConnectionRefused):
        order.check(PRODUCER, 4.9)
    order.check(PRODUCER, 5.0)
    coordinators.taken_over = 0.0
    order.check(PRODUCER, 1.0)


def test_the_number_of_producers_is_bounded(order: ConnectionOrder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_order, "PRODUCERS_MAX", 2)
    for number in range(4):
        order.record(PRODUCER._replace(transactional_id=f"tx-{number}"), 1.0)
    assert list(order._newest) == ["tx-2", "tx-3"]
