"""Kafka listeners that `raftlog serve` derives from its flags, and refused combinations."""

from typing import Any

import click
import pytest

from raftlog.api.kafka.settings import DEFAULTS, KafkaSettings
from raftlog.cli.serve.kafka_options import KafkaAddresses, KafkaPlan, kafka_plan_from

DEFAULT = KafkaAddresses("kafka", "127.0.0.1", 9092)


def kafka_plan(*kafka: str, is_alone: bool = True, **given: Any) -> KafkaPlan:
    arguments = {
        "kafka": kafka,
        "advertise_kafka": (),
        "kafka_default": None,
        "kafka_port_shift": 0,
        **{f"kafka_{name}": value for name, value in DEFAULTS._asdict().items() if name != "auto_create_topics"},
        "auto_create_topics": False,
        "other": 1,
    } | given
    plan = kafka_plan_from(arguments, is_alone=is_alone)
    assert arguments == {"other": 1}, "what is not its own is left alone"
    return plan


def test_a_single_broker_has_an_optional_kafka_listener_by_default() -> None:
    assert kafka_plan() == KafkaPlan((DEFAULT,), is_optional=True, settings=DEFAULTS)
    assert kafka_plan(is_alone=False).listeners == ()
    assert kafka_plan(is_alone=False, kafka_default="127.0.0.1:9102", kafka_port_shift=10).listeners == (
        KafkaAddresses("kafka", "127.0.0.1", 9102),
    )


def test_kafka_addresses_named_by_a_flag_are_required() -> None:
    assert kafka_plan("127.0.0.1:9092", is_alone=False) == KafkaPlan((DEFAULT,), is_optional=False, settings=DEFAULTS)
    listeners = kafka_plan("in=127.0.0.1:0", "out=[::1]:9094", advertise_kafka=("out=[2001:db8::1]:9",)).listeners
    assert listeners == (
        KafkaAddresses("in", "127.0.0.1", 0),
        KafkaAddresses("out", "::1", 9094, "[2001:db8::1]:9"),
    )
    assert kafka_plan("none").listeners == ()
    assert kafka_plan(advertise_kafka=("example.org:9092",)).listeners == (
        DEFAULT._replace(advertised="example.org:9092"),
    )


def test_workers_have_ports_of_their_own() -> None:
    flags = {"kafka_port_shift": 20, "advertise_kafka": ("b=c:80",), "is_alone": False}
    assert kafka_plan("a=127.0.0.1:0", "b=127.0.0.1:9092", **flags).listeners == (
        KafkaAddresses("a", "127.0.0.1", 0),
        KafkaAddresses("b", "127.0.0.1", 9112, "c:100"),
    )
    with pytest.raises(click.UsageError, match="end above 65535"):
        kafka_plan("127.0.0.1:65530", kafka_port_shift=10)


def test_a_wildcard_address_needs_an_advertised_address() -> None:
    for everywhere in ("0.0.0.0:9092", "[::]:9092"):
        with pytest.raises(click.UsageError, match="give --advertise-kafka"):
            kafka_plan(everywhere)
    assert kafka_plan("0.0.0.0:9092", advertise_kafka=("h:9092",)).listeners[0].advertised == "h:9092"


@pytest.mark.parametrize(
    ("kafka", "advertised", "message"),
    [
        (("none", "127.0.0.1:1"), (), "--kafka none switches Kafka off"),
        (("127.0.0.1:1", "127.0.0.1:2"), (), "two listeners have the name 'kafka'"),
        (("a=127.0.0.1:1", "a=127.0.0.1:2"), (), "two listeners have the name 'a'"),
        (("=127.0.0.1:1",), (), "'' cannot be the name"),
        (("a b=127.0.0.1:1",), (), "'a b' cannot be the name"),
        (("-a=127.0.0.1:1",), (), "'-a' cannot be the name"),
        ((f"{'a' * 33}=127.0.0.1:1",), (), "cannot be the name"),
        (("ä=127.0.0.1:1",), (), "cannot be the name"),
        (("http=127.0.0.1:1",), (), "'http' cannot be the name"),
        (("rpc=127.0.0.1:1",), (), "'rpc' cannot be the name"),
        (("none=127.0.0.1:1",), (), "'none' cannot be the name"),
        (("",), (), "is not HOST:PORT"),
        (("9092",), (), "is not HOST:PORT"),
        (("127.0.0.1:65536",), (), "is not HOST:PORT"),
        (("127.0.0.1:-1",), (), "is not HOST:PORT"),
        ((tuple(f"l{number}=127.0.0.1:0" for number in range(9))), (), "at most 8 listeners"),
        (("127.0.0.1:1",), ("b=h:1",), "no listener has the name 'b'; the listeners are kafka"),
        (("none",), ("h:1",), "no listener has the name 'kafka'; the listeners are none"),
        (("127.0.0.1:1",), ("h:1", "kafka=h:2"), "twice for the listener 'kafka'"),
        (("127.0.0.1:1",), ("h:0",), "clients cannot connect to it"),
        (("127.0.0.1:1",), ("0.0.0.0:9",), "clients cannot connect to it"),
        (("127.0.0.1:1",), ("a b:9",), "is not HOST:PORT"),
        (("127.0.0.1:1",), (f"{'h' * 255}:9",), "is not HOST:PORT"),
        (("127.0.0.1:1",), ("http=h:1",), "'http' cannot be the name"),
    ],
)
def test_invalid_kafka_options_are_refused(kafka: tuple[str, ...], advertised: tuple[str, ...], message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        kafka_plan(*kafka, advertise_kafka=advertised)


def test_limits_of_the_listeners_are_set_by_flags() -> None:
    plan = kafka_plan(kafka_idle_ms_max=7, kafka_connections_max=8, auto_create_topics=True)
    assert plan.settings == KafkaSettings(idle_ms_max=7, connections_max=8, auto_create_topics=True)
