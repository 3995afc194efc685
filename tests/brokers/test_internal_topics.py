"""Coordinators of consumer groups and transactions on topics with `min.insync.replicas` above the majority."""

from collections.abc import AsyncIterator

import pytest

from raftlog.partitions.groups.service import OFFSETS_TOPIC
from raftlog.topic_config import TopicConfig
from tests.brokers.conftest import Brokers, brokers_in
from tests.brokers.members import commit, coordinator_node, fetch_committed, soon

STRICT = TopicConfig(min_insync_replicas=3, cleanup_policy="compact")


@pytest.fixture
async def strict(tmp_path) -> AsyncIterator[Brokers]:
    """Provide three brokers whose topics need a sync on all three, unless they say otherwise."""
    async with brokers_in(tmp_path, offsets_partitions=1, transaction_partitions=1, topic_config=STRICT) as three:
        await three.start()
        await three[1].create_topic("t", 1, deadline=soon())
        yield three


async def test_internal_topics_do_not_inherit_copies_above_the_majority(strict: Brokers) -> None:
    await commit(strict[1], {0: 1})
    await strict[1].transactions.initialize("tx", 60_000, deadline=soon())
    assert strict[1]._topics.find("t").config.min_insync_replicas == 3
    for name in (OFFSETS_TOPIC, "__transaction_state"):
        config = strict[1]._topics.find(name).config
        assert (config.min_insync_replicas, config.cleanup_policy) == (1, "delete")
    node = await coordinator_node(strict)
    await strict.stop(next(each for each in strict.running if each != node))
    await commit(strict[node], {0: 2})
    producer = await strict[node].transactions.initialize("tx", 60_000, deadline=soon())
    assert producer.producer_epoch == 1
    assert await fetch_committed(strict[node]) == {("t", 0): 2}


async def test_a_single_broker_has_internal_topics_whatever_other_topics_need(tmp_path) -> None:
    async with brokers_in(tmp_path, 1, topic_config=STRICT) as one:
        await one.start()
        await one[1].create_topic("t", 1, config={"min.insync.replicas": "1"}, deadline=soon())
        await commit(one[1], {0: 1})
        assert await fetch_committed(one[1]) == {("t", 0): 1}
