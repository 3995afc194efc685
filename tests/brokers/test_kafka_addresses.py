"""Addresses of Kafka listeners in a cluster: registered at the start, or when the feature level rises."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from raftlog.partitions.controller import first_start
from raftlog.types import FEATURE_LEVEL_KNOWN
from tests.brokers.conftest import Brokers, brokers_in
from tests.operations.conftest import soon
from tests.waiting import until

KAFKA = {1: {"kafka": "h1:9092"}, 2: {"kafka": "h2:9092"}, 3: {"kafka": "h3:9092"}}
ALL = [(1, "h1", 9092, None), (2, "h2", 9092, None), (3, "h3", 9092, None)]


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Brokers]:
    async with brokers_in(tmp_path, 3) as brokers:
        brokers.kafka = KAFKA
        yield brokers


@pytest.fixture
def found_at_feature_level_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_start, "FEATURE_LEVEL_KNOWN", 1)


def has_all_addresses(brokers: Brokers, number: int) -> bool:
    return brokers[number].kafka_addresses("kafka") == ALL


async def test_every_broker_returns_the_addresses_of_all(three: Brokers) -> None:
    await three.start()
    for number in (1, 2, 3):
        await until(lambda number=number: has_all_addresses(three, number))
    health = await three[1].health(deadline=soon())
    assert (health.is_healthy, health.notes) == (True, [])
    described = await three[2].brokers(deadline=soon())
    assert [broker.kafka_addresses for broker in described] == list(KAFKA.values())


async def test_a_restart_without_kafka_removes_the_address_and_adds_a_health_note(three: Brokers) -> None:
    await three.start()
    await three.stop(3)
    three.kafka = {**KAFKA, 3: {}}
    await three.start(3)
    await until(lambda: three[1].kafka_addresses("kafka") == ALL[:2])
    [note] = (await three[1].health(deadline=soon())).notes
    assert "the nodes [3] do not serve Kafka" in note


@pytest.mark.usefixtures("found_at_feature_level_1")
async def test_running_brokers_register_their_addresses_when_an_upgrade_is_finished(
    three: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    await three.start()
    assert three[1].metadata.state.feature_level == 1
    assert [three[number].kafka_addresses("kafka") for number in (1, 2, 3)] == [[], [], []]
    assert caplog.text.count("get no addresses below feature level 2, and the cluster runs at 1") == 3
    epochs = [broker.boot_epoch for broker in await three[1].brokers(deadline=soon())]
    assert await three[2].operations.cluster.finish_upgrade(deadline=soon()) == FEATURE_LEVEL_KNOWN
    for number in (1, 2, 3):
        await until(lambda number=number: has_all_addresses(three, number))
    assert [broker.boot_epoch for broker in await three[1].brokers(deadline=soon())] == epochs, "without a restart"


async def test_a_new_broker_registers_its_own_address(tmp_path: Path) -> None:
    async with brokers_in(tmp_path, 3, seeds=2) as brokers:
        brokers.kafka = KAFKA
        await brokers.start(1, 2)
        await brokers.start(3)
        assert has_all_addresses(brokers, 3)
        await until(lambda: has_all_addresses(brokers, 1))


async def test_the_rack_of_a_kafka_address_is_the_brokers(tmp_path: Path) -> None:
    async with brokers_in(tmp_path, 1, rack="r1") as brokers:
        brokers.kafka = KAFKA
        await brokers.start()
        assert brokers[1].kafka_addresses("kafka") == [(1, "h1", 9092, "r1")]


async def test_a_topic_without_a_partition_count_has_the_default_partitions(tmp_path: Path) -> None:
    async with brokers_in(tmp_path, 1, default_partitions=3) as brokers:
        await brokers.start()
        assert len((await brokers[1].create_topic("t", deadline=soon())).partitions) == 3
        assert len((await brokers[1].create_topic("u", 1, deadline=soon())).partitions) == 1
