"""Clients of Kafka's protocol: outcomes of deliveries, and the workloads that they support."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import NotLeaderForPartitionError
from click.testing import CliRunner
from confluent_kafka import KafkaError

from jepsen.runner.command import test as command
from jepsen.workloads.adapters.aio import _complete
from jepsen.workloads.adapters.library import MemberSettings, OnAssigned, PlainSettings
from jepsen.workloads.adapters.librdkafka import NO_GROUP, Librdkafka, LibrdkafkaProducer
from jepsen.workloads.adapters.port import ProducerTimes
from raftlog.errors import RaftlogError

NOWHERE = "127.0.0.1:1"
DELIVERED = SimpleNamespace(offset=lambda: 7)
UNTOLD = SimpleNamespace(offset=lambda: None)


def delivery_outcome(producer: LibrdkafkaProducer, error: KafkaError | None, message: Any) -> str | int:
    delivery: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    producer._on_delivery(delivery, error, message)
    failure = delivery.exception()
    if failure is None:
        return int(delivery.result().offset)
    assert isinstance(failure, RaftlogError)
    return failure.outcome


async def test_a_failed_delivery_of_librdkafka_is_definite_only_after_one_attempt() -> None:
    library = Librdkafka(NOWHERE)
    once = library.new_plain_producer(PlainSettings("all", 100, is_compressed=False))
    often = library.new_producer(ProducerTimes(0, 100, 200))
    refused, timed_out, purged = (
        KafkaError(code) for code in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._MSG_TIMED_OUT, -152)
    )
    assert [delivery_outcome(once, each, None) for each in (refused, timed_out, purged)] == [
        "failed",
        "unknown",
        "failed",
    ]
    assert [delivery_outcome(often, each, None) for each in (refused, timed_out, purged)] == ["unknown"] * 3
    assert [delivery_outcome(often, None, each) for each in (DELIVERED, UNTOLD)] == [7, "unknown"]
    await once.close(0)
    await often.close(0)


@pytest.mark.parametrize(
    ("result", "expected"), [(SimpleNamespace(offset=7), 7), (SimpleNamespace(offset=-1), "unknown"), (None, "unknown")]
)
async def test_a_delivery_of_aiokafka_without_an_offset_is_unknown(result: Any, expected: str | int) -> None:
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[Any] = loop.create_future()
    accepted.set_result(result)
    delivery: asyncio.Future[Any] = loop.create_future()
    _complete(delivery, accepted)
    failure = delivery.exception()
    assert (failure.outcome if isinstance(failure, RaftlogError) else delivery.result().offset) == expected


async def test_a_refusal_after_retries_is_unknown() -> None:
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[Any] = loop.create_future()
    accepted.set_exception(NotLeaderForPartitionError())
    delivery: asyncio.Future[Any] = loop.create_future()
    _complete(delivery, accepted)
    failure = delivery.exception()
    assert isinstance(failure, RaftlogError)
    assert failure.outcome == "unknown"


async def test_the_identity_of_a_member_is_read_from_librdkafka() -> None:
    settings = MemberSettings(("t",), NO_GROUP, None, "range", 1_000, 2_000)
    assigned: OnAssigned = lambda _identity, _partitions: None  # noqa: E731 - a callback
    member = Librdkafka(NOWHERE).new_member(settings, assigned)
    assert member.identity() == ("", -1)
    await member.close()


def test_clients_of_kafka_support_a_few_workloads() -> None:
    done = CliRunner().invoke(command, ["--client", "aiokafka", "--workload", "register"])
    assert (done.exit_code, "log, idempotent, groups" in done.stderr) == (2, True)
