"""What is recorded of a write, as the commits of a consumer group of its own, `raftlog-sink.{write id}`.

    mark               2⁶² + 2·epoch + 1 once the epoch is begun in a topic, + 2 once it is done
    at a partition     {"from": an offset below which nothing of later epochs lies}
    at partition 0     of an epoch that is begun also {"run", "ms", "partitions"}

Commits of a group without members only rise, and one that does not rise changes nothing: so of all attempts that begin
an epoch the first one's words stand, and all others take them: which run of the driver began it, the time that rows
without a timestamp get, and how many partitions the rows are spread over. An epoch is done before a later one begins,
so one mark says both. The marks are no offsets, but lie above all of them, so that no lag is seen. Called by tasks, and
by the driver when an epoch is done; `Recorder` asks and tells the brokers, the rest is pure.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from raftlog.client import BrokerClient, CommittedOffset
from raftlog.errors import InvalidArgument
from raftlog.pipeline.errors import WriteForgotten
from raftlog.types import Offset, TopicPartition

GROUP_PREFIX: Final = "raftlog-sink."
_BASE: Final = 1 << 62
_NO_TOPIC: Final = "__consumer_offsets"
"""Where it is recorded that an epoch is done which has no row and so no topic: a topic that is always there."""


class Beginning(NamedTuple):
    """Of one epoch in one topic, as its first attempt found it."""

    run: str
    """Which execution of the driver began it."""
    ms: int
    """When, by the clock of whoever began it."""
    partitions: int


class Marks:
    """All that the group has committed; raises `WriteForgotten` for what is not of this module."""

    def __init__(self, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        self._fields = {place: _fields(place, found) for place, found in committed.items()}
        self._marks = {place: found.offset - _BASE for place, found in committed.items()}

    def __bool__(self) -> bool:
        return bool(self._marks)

    def done(self) -> int:
        """The newest epoch that is known to be in the log with every row; -1: none."""
        return max((mark // 2 - 1 for mark in self._marks.values()), default=-1)

    def beginning(self, topic: str, epoch: int) -> Beginning | None:
        """None: the epoch is not begun in this topic."""
        place = TopicPartition(topic, 0)
        if self._marks.get(place) != _begun(epoch):
            return None
        fields = self._fields[place]
        return Beginning(fields["run"], fields["ms"], fields["partitions"])

    def start(self, place: TopicPartition) -> Offset | None:
        """Nothing of an epoch that is not done lies below; None: nothing is recorded here."""
        fields = self._fields.get(place)
        return None if fields is None else Offset(fields["from"])


class Recorder:
    """The marks of one write."""

    def __init__(self, client: BrokerClient, write_id: str) -> None:
        self._client, self._write_id = client, write_id
        self.group = GROUP_PREFIX + write_id

    async def read(self) -> Marks:
        """With everything that was recorded before the call."""
        return Marks(await self._client.groups.committed(self.group))

    async def begin(self, topic: str, epoch: int, mine: Beginning, before: Marks) -> Marks:
        """Begin the epoch in this topic unless somebody has; what stands then. `before` is what was read."""
        begun = TopicPartition(topic, 0)
        starts = {begun: before.start(begun)}
        if starts[begun] is None:
            # Partitions of which nothing is recorded are new since; whoever looks there begins at the log's start.
            places = [TopicPartition(topic, partition) for partition in range(mine.partitions)]
            # Without a record of what came before, earlier attempts may have written anywhere.
            is_first = epoch == 0 or bool(before)
            starts = {place: (await self._client.offsets(*place)).end if is_first else Offset(0) for place in places}
        rows = {place: _row(_begun(epoch), {"from": start}) for place, start in starts.items()}
        rows[begun] = _row(_begun(epoch), {"from": starts[begun], **mine._asdict()})
        await self._client.groups.commit(self.group, rows)
        return await self.read()

    async def finish(self, epoch: int, ends: Mapping[TopicPartition, int], topics: set[str]) -> None:
        """Every row of the epoch is in the log, in these topics, below these ends. May be repeated."""
        marks = await self.read()
        starts: dict[TopicPartition, int] = dict(ends)
        if not topics:
            starts[TopicPartition(_NO_TOPIC, 0)] = 0
        for topic in topics:
            place = TopicPartition(topic, 0)
            if place not in starts:
                known = marks.start(place)
                starts[place] = (await self._client.offsets(*place)).end if known is None else known
        rows = {place: _row(2 * epoch + 2, {"from": start}) for place, start in starts.items()}
        await self._client.groups.commit(self.group, rows)

    def check_topic(self, marks: Marks, topic: str) -> None:
        """Raises `InvalidArgument` where a batch write that is done did not go to this topic."""
        if marks.start(TopicPartition(topic, 0)) is None:
            raise InvalidArgument(
                f"the write {self._write_id} is done, and was not one to {topic}: a writeId is the name of one write; "
                "give this one another"
            )

    def check_missing(self, marks: Marks, epoch: int) -> None:
        """Raises `WriteForgotten` where nothing is recorded of the epochs before this one."""
        if epoch > 0 and not marks:
            raise WriteForgotten(
                f"nothing is recorded of the micro-batches before {epoch} of this query (group {self.group}): the "
                "record was forgotten (--offsets-retention-ms, a week without a micro-batch), or its topics were "
                "deleted. If an attempt of this micro-batch has not written "
                "anything longer ago than producer.id.expiration.ms (a day), nothing can be doubled: go on with the "
                "option acceptMissingRecord=true; otherwise begin with a new checkpoint"
            )


def _begun(epoch: int) -> int:
    return 2 * epoch + 1


def _row(mark: int, fields: Mapping[str, Any]) -> CommittedOffset:
    return record_of(_BASE + mark, fields)


def recorded_fields(found: CommittedOffset) -> dict[str, Any]:
    """The JSON object that was committed with an offset; empty where there is none."""
    try:
        fields = json.loads(found.metadata)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def record_of(offset: int, fields: Mapping[str, Any]) -> CommittedOffset:
    """To be committed."""
    return CommittedOffset(Offset(offset), json.dumps(fields, separators=(",", ":")))


def _fields(place: TopicPartition, found: CommittedOffset) -> dict[str, Any]:
    fields = recorded_fields(found)
    if found.offset <= _BASE or not isinstance(fields.get("from"), int):
        raise WriteForgotten(
            f"what the group of this write has committed for {place} is no record of a sink: somebody else commits "
            "under its name, or reset it. Delete the group and begin with a new checkpoint or writeId"
        )
    return fields
