"""The final drain: every partition is read from its log start to its end, through a broker that is drawn for each.

Nothing is broken any more, so every answer must come, and all that was acknowledged must be in it.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from jepsen.simulation.brokers.clients import Known
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.reading import decode
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.checkers import Assign, ListOffsets, OffsetRange, Poll
from raftlog.checkers.history import ASSIGN, LIST, POLL
from raftlog.errors import RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import Offset

DRAIN_BYTES: Final = 1 << 16
PATIENCE_MS: Final = 5_000
WITHIN_S: Final = 60.0


class Drain:
    """`partitions` are named by topic and number."""

    def __init__(self, cluster: BrokerCluster, partitions: Mapping[GroupKey, tuple[str, int]]) -> None:
        self.cluster, self.partitions = cluster, partitions
        self._left: dict[GroupKey, None] = dict.fromkeys(partitions)

    def read_all(self) -> None:
        """Raises `PropertyBroken`."""
        random = self.cluster.random("drain")
        for key, (name, number) in self.partitions.items():
            machine = random.choice(list(self.cluster.machines.values()))
            machine.spawn(partial(self._read, key, name, number), "drain")
        if not self.cluster.loop.run_until(lambda: not self._left, within_s=WITHIN_S):
            unread = ", ".join("/".join(map(str, self.partitions[key])) for key in self._left)
            raise PropertyBroken("unreadable", {"not_read": unread, "within_s": WITHIN_S})

    async def _read(self, key: GroupKey, name: str, number: int, broker: Broker) -> None:
        """Code of the broker's process."""
        try:
            await self._follow(name, number, broker)
        except RaftlogError as error:
            numbers = {"partition": f"{name}/{number}", "node": broker.node_id, "error": repr(error)}
            raise PropertyBroken("unreadable", numbers) from error
        del self._left[key]

    async def _follow(self, name: str, number: int, broker: Broker) -> None:
        recorder, process = self.cluster.recorder, self.cluster.new_process()
        topic = broker.metadata.state.topic(name)
        partition = Known(name, topic.topic_id, topic.partition_count).partition(number)
        asked = recorder.invoke(process, LIST, ListOffsets(linearizable=True))
        beginning, end = await broker.offsets(name, number, linearizable=True, deadline=deadline_in(PATIENCE_MS))
        recorder.ok(asked, ListOffsets((OffsetRange(partition, beginning, end),), linearizable=True))
        recorder.ok(recorder.invoke(process, ASSIGN, Assign(((partition, beginning),))))
        offset = beginning
        while offset < end:
            op = recorder.invoke(process, POLL, Poll())
            found = await broker.fetch(
                name, number, offset, max_bytes=DRAIN_BYTES, min_bytes=1, deadline=deadline_in(PATIENCE_MS)
            )
            fetched = decode(partition, found.batches, offset)
            recorder.ok(op, Poll((fetched,) if fetched.offsets else ()))
            if not fetched.offsets:
                numbers = {"partition": f"{name}/{number}", "offset": offset, "end": end, "node": broker.node_id}
                raise PropertyBroken("unreadable", numbers)
            offset = Offset(fetched.offsets[-1] + 1)
