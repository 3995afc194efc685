"""Record of the progress of a write, as offset commits of its own consumer group `raftlog-sink.{write id}`.

    mark               committed offset: 2⁶² + 2·epoch + 1 when the epoch has begun in a topic, + 2 when it is complete
    at a partition     metadata {"from": offset below which no record of a later epoch is stored}
    at partition 0     of an epoch that has begun, also {"run", "ms", "partitions"}

A commit of a group without members changes nothing unless it raises the offset. So of all attempts that begin an epoch
the record of the first one counts, and the others use it: the run of the driver that began the epoch, the timestamp of
rows without one, and the number of partitions among which rows are divided. An epoch is complete before a later one
begins, so one mark is enough for both facts. The marks are higher than all offsets of records, so that monitoring shows
no lag. Called by tasks, and by the driver when an epoch is complete. `Recorder` sends the requests; the rest is
pure."""

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
"""Topic that always exists, for the mark of an epoch that has no row and so no topic."""


class EpochStart(NamedTuple):
    """Start of an epoch in one topic, as recorded by its first attempt."""

    run: str
    """Id of the driver's execution that began the epoch."""
    ms: int
    """Start time in milliseconds since 1970, by the clock of the task that began the epoch."""
    partitions: int


class Marks:
    """Records of a write's progress, in the committed offsets of its group.

    Raises `WriteForgotten` for a commit that this module did not write."""

    def __init__(self, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        self._fields = {place: _check_fields(place, found) for place, found in committed.items()}
        self._marks = {place: found.offset - _BASE for place, found in committed.items()}

    def __bool__(self) -> bool:
        return bool(self._marks)

    def newest_complete(self) -> int:
        """Return the newest epoch that is recorded as complete; -1 if none is."""
        return max((mark // 2 - 1 for mark in self._marks.values()), default=-1)

    def start_of_epoch(self, topic: str, epoch: int) -> EpochStart | None:
        """Return the recorded start of an epoch in this topic; None if it has not begun."""
        place = TopicPartition(topic, 0)
        if self._marks.get(place) != _begun_mark(epoch):
            return None
        fields = self._fields[place]
        return EpochStart(fields["run"], fields["ms"], fields["partitions"])

    def complete_below(self, place: TopicPartition) -> Offset | None:
        """Return an offset of a partition below which all epochs are complete; None without a record."""
        fields = self._fields.get(place)
        return None if fields is None else Offset(fields["from"])


class Recorder:
    """Reads and writes the marks (records of progress) of one write."""

    def __init__(self, client: BrokerClient, write_id: str) -> None:
        self._client, self._write_id = client, write_id
        self.group = GROUP_PREFIX + write_id

    async def read(self) -> Marks:
        """Return all marks that were recorded before the call."""
        return Marks(await self._client.groups.committed(self.group))

    async def begin(self, topic: str, epoch: int, own_start: EpochStart, before: Marks) -> Marks:
        """Record the begin of an epoch in a topic unless another attempt recorded it; return all marks afterwards.

        `before` are the marks that were read at the start of the attempt."""
        begun = TopicPartition(topic, 0)
        starts = {begun: before.complete_below(begun)}
        if starts[begun] is None:
            # Partitions without a record are new; a scan of them begins at the log's start.
            places = [TopicPartition(topic, partition) for partition in range(own_start.partitions)]
            # Without a record of earlier epochs, earlier attempts may have written anywhere.
            is_first = epoch == 0 or bool(before)
            starts = {place: (await self._client.offsets(*place)).end if is_first else Offset(0) for place in places}
        rows = {place: _make_mark(_begun_mark(epoch), {"from": start}) for place, start in starts.items()}
        rows[begun] = _make_mark(_begun_mark(epoch), {"from": starts[begun], **own_start._asdict()})
        await self._client.groups.commit(self.group, rows)
        return await self.read()

    async def finish(self, epoch: int, ends: Mapping[TopicPartition, int], topics: set[str]) -> None:
        """Record that every row of the epoch is stored, in `topics`, below the offsets in `ends`. Idempotent."""
        marks = await self.read()
        starts: dict[TopicPartition, int] = dict(ends)
        if not topics:
            starts[TopicPartition(_NO_TOPIC, 0)] = 0
        for topic in topics:
            place = TopicPartition(topic, 0)
            if place not in starts:
                known = marks.complete_below(place)
                starts[place] = (await self._client.offsets(*place)).end if known is None else known
        rows = {place: _make_mark(2 * epoch + 2, {"from": start}) for place, start in starts.items()}
        await self._client.groups.commit(self.group, rows)

    def check_topic(self, marks: Marks, topic: str) -> None:
        """Raise `InvalidArgument` if a completed batch write of this name did not write to this topic."""
        if marks.complete_below(TopicPartition(topic, 0)) is None:
            raise InvalidArgument(
                f"the write {self._write_id} is done, and was not one to {topic}: a writeId is the name of one write; "
                "give this one another"
            )

    def check_missing(self, marks: Marks, epoch: int) -> None:
        """Raise `WriteForgotten` if there is no record of the epochs before this one."""
        if epoch > 0 and not marks:
            raise WriteForgotten(
                f"nothing is recorded of the micro-batches before {epoch} of this query (group {self.group}): the "
                "record expired (--offsets-retention-ms, a week without a micro-batch), or its topics were "
                "deleted. If an attempt of this micro-batch has not written "
                "anything longer ago than producer.id.expiration.ms (a day), nothing can be doubled: continue with the "
                "option acceptMissingRecord=true; otherwise begin with a new checkpoint"
            )


def _begun_mark(epoch: int) -> int:
    """Return the number that marks the begin of an epoch."""
    return 2 * epoch + 1


def _make_mark(mark: int, fields: Mapping[str, Any]) -> CommittedOffset:
    """Return the offset commit that stores a mark with these fields."""
    return make_commit(_BASE + mark, fields)


def recorded_fields(found: CommittedOffset) -> dict[str, Any]:
    """Return the JSON object in a commit's metadata; empty if there is none."""
    try:
        fields = json.loads(found.metadata)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def make_commit(offset: int, fields: Mapping[str, Any]) -> CommittedOffset:
    """Return a commit of an offset with a JSON object as metadata."""
    return CommittedOffset(Offset(offset), json.dumps(fields, separators=(",", ":")))


def _check_fields(place: TopicPartition, found: CommittedOffset) -> dict[str, Any]:
    """Return the fields of a mark. Raises `WriteForgotten` if another client wrote the commit."""
    fields = recorded_fields(found)
    if found.offset <= _BASE or not isinstance(fields.get("from"), int):
        raise WriteForgotten(
            f"the commit of this write's group for {place} is not one of the sink: another client commits under "
            "its name, or reset it. Delete the group and begin with a new checkpoint or writeId"
        )
    return fields
