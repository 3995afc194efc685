"""Markers from a coordinator's broker to partitions that it does not know yet."""

from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.errors import UnknownPartition, UnknownTopic
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.results import GroupMarker
from raftlog.partitions.transactions.service import Transactions
from raftlog.records import TransactionMarker
from tests.transactions.harness import DELETED, TOPIC, soon

MARKER = GroupMarker(7, 0, True, 3, 1)


class StaleBroker:
    """Parts of a broker whose topics are behind the controller's until a `barrier`."""

    def __init__(self) -> None:
        self._topics = self._metadata = self._reader = self
        self.topic = SimpleNamespace(name="t", partitions=["t/0"])
        self.sent: list[tuple[str, TransactionMarker]] = []
        self.by_id: Any = {TOPIC: self.topic}.get

    async def barrier(self, deadline: Deadline) -> None:
        self.topic.partitions = ["t/0", "t/1"]

    async def end_transaction(self, partition: str, marker: TransactionMarker, deadline: Deadline) -> None:
        self.sent.append((partition, marker))

    async def end_partition(self, *place: Any) -> None:
        broker: Any = self
        await Transactions._end_partition(broker, place, MARKER, soon())


async def test_a_partition_that_was_added_just_now_gets_its_marker() -> None:
    """A marker that is not sent leaves the transaction open, and its readers at the last stable offset, for ever."""
    broker = StaleBroker()
    await broker.end_partition(TOPIC, 1)
    assert broker.sent == [("t/1", TransactionMarker(*MARKER))]
    with pytest.raises(UnknownPartition):
        await broker.end_partition(TOPIC, 2)
    with pytest.raises(UnknownTopic):
        await broker.end_partition(DELETED, 0)
    assert len(broker.sent) == 1
