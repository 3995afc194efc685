"""Fixtures: handlers of a single broker and of three brokers, without client sockets."""

from collections.abc import AsyncIterator

import pytest

from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.settings import BrokerSettings
from tests.brokers.conftest import Brokers, brokers_in
from tests.kafka.data.requests import Handlers
from tests.small_journal import SMALL_JOURNAL

ADDRESS = {"kafka": "127.0.0.1:9092"}


@pytest.fixture
async def lone(tmp_path) -> AsyncIterator[Handlers]:
    """Yield the handlers of a single broker, with topic `t` of two partitions."""
    broker = await Broker.open(BrokerSettings(data_dir=str(tmp_path), driver=SMALL_JOURNAL))
    await broker.start("127.0.0.1:1", ADDRESS)
    await broker.create_topic("t", 2, deadline=deadline_in(10_000))
    yield Handlers(broker)
    await broker.close()


@pytest.fixture
async def three(tmp_path) -> AsyncIterator[Brokers]:
    """Yield the handlers of three brokers, with topic `t` of one partition."""
    async with brokers_in(tmp_path) as brokers:
        await brokers.start()
        await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
        await brokers.leader("t")
        yield brokers
