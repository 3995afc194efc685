"""Below feature level 3 nothing is promised or written that brokers of the release before cannot read."""

import pytest

from raftlog.config import LEVEL_3_SETTINGS, TopicConfig
from raftlog.errors import InvalidArgument
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.results import ProducerSequence
from raftlog.records import NewRecord

SOON = 5_000


@pytest.fixture
async def old(open_broker):
    broker = await open_broker()
    broker.metadata.state.feature_level = 2
    return broker


async def test_there_are_no_producer_ids(old):
    with pytest.raises(InvalidArgument, match="finish the upgrade first"):
        await old.producers.allocate(deadline_in(SOON))
    await old.create_topic("t", deadline=deadline_in(SOON))
    [result] = await old.produce_records(
        "t", 0, [NewRecord(b"x")], deadline=deadline_in(SOON), producer=ProducerSequence(1, 0, 0)
    )
    assert isinstance(result.error, InvalidArgument)
    assert "finish the upgrade first" in str(result.error)


@pytest.mark.parametrize("name", ["cleanup.policy", *sorted(LEVEL_3_SETTINGS)])
async def test_settings_that_brokers_of_0_1_0_do_not_know_are_refused(old, name):
    value = "compact" if name == "cleanup.policy" else TopicConfig().as_strings()[name]
    with pytest.raises(InvalidArgument, match=f"{name}.* needs feature level 3: finish the upgrade first"):
        await old.create_topic("t", config={name: value}, deadline=deadline_in(SOON))
    await old.create_topic("t", config={"cleanup.policy": "delete"}, deadline=deadline_in(SOON))
    with pytest.raises(InvalidArgument, match="finish the upgrade first"):
        await old.alter_topic_config("t", {name: value}, deadline=deadline_in(SOON))
    await old.alter_topic_config("t", {"retention.ms": "5000", "cleanup.policy": None}, deadline=deadline_in(SOON))
