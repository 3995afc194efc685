"""Start of a one-broker cluster: the barrier of the start and the first command of its leader, in either order."""

import asyncio

from raftlog.partitions.broker import Broker
from raftlog.partitions.settings import BrokerSettings
from raftlog.types import FEATURE_LEVEL_KNOWN


async def test_the_first_command_sets_the_feature_level_for_later_ones(tmp_path):
    broker = await Broker.open(BrokerSettings(data_dir=str(tmp_path)))
    broker.metadata._proposals.was_up_to_date = True  # the barrier was passed before anything was proposed
    try:
        async with asyncio.timeout(30):
            await broker.start("127.0.0.1:1")
        assert broker.metadata.state.feature_level == FEATURE_LEVEL_KNOWN
    finally:
        await broker.close()
