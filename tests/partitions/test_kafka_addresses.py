"""Addresses that a Kafka listener returns to its clients."""

import pytest

from raftlog.partitions.controller.machine import Addresses, RegisteredBroker
from raftlog.partitions.kafka_addresses import kafka_addresses, kafka_listener_warning
from raftlog.types import Index, NodeId
from tests.controller.machine.fleet import disk_uuid


def make_row(node: int, **kafka: str) -> RegisteredBroker:
    addresses = Addresses("", "", "", tuple(sorted(kafka.items())))
    return RegisteredBroker(NodeId(node), disk_uuid(node), 1, f"host-{node}", addresses, 1, 2, False, Index(1))


ROWS = [
    make_row(3, inside="[2001:db8::3]:9092", outside="three:9094"),
    make_row(1, kafka="one:9092"),
    make_row(2),
    make_row(4, a="four:1", b="four:2"),
]


def test_a_broker_has_the_address_of_the_listener_or_of_its_only_listener() -> None:
    assert kafka_addresses(ROWS, "inside", {NodeId(1): "r1"}) == [
        (1, "one", 9092, "r1"),
        (3, "2001:db8::3", 9092, None),
    ]
    assert kafka_addresses(ROWS, "outside", {}) == [(1, "one", 9092, None), (3, "three", 9094, None)]
    assert kafka_addresses(ROWS, "b", {}) == [(1, "one", 9092, None), (4, "four", 2, None)]
    assert kafka_addresses([make_row(2)], "kafka", {}) == []


def test_an_invalid_address_is_left_out() -> None:
    assert kafka_addresses([make_row(1, kafka="nonsense"), make_row(2, kafka="h:0")], "kafka", {}) == []


@pytest.mark.parametrize(
    ("rows", "named"), [(ROWS, "[2]"), ([make_row(1), make_row(2), make_row(3, kafka="h:1")], "[1, 2]")]
)
def test_a_note_names_brokers_without_kafka(rows: list[RegisteredBroker], named: str) -> None:
    note = kafka_listener_warning(rows)
    assert note is not None
    assert f"the nodes {named} do not serve Kafka" in note


def test_no_note_when_all_or_no_brokers_serve_kafka() -> None:
    assert kafka_listener_warning([make_row(1), make_row(2)]) is None
    assert kafka_listener_warning([make_row(1, kafka="h:1"), make_row(2, kafka="h:2")]) is None
    assert kafka_listener_warning([]) is None
