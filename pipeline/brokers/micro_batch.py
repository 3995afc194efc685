"""Choice of the end of a stream's next micro-batch, from its position, the logs and the row limit. Pure.

    start ≤ next ≤ end of each partition, unless the log lost records that the stream had read

New partitions are added at their earliest offset, and stay in the stream. Called by the reader of the stream."""

from collections.abc import Mapping, Sequence

from raftlog.pipeline.brokers.data_loss import report_loss
from raftlog.pipeline.brokers.plan import PartitionLog
from raftlog.pipeline.brokers.stream_offsets import Offsets, StreamOffset, limit_offsets
from raftlog.pipeline.errors import CheckpointMismatch
from raftlog.pipeline.options import TopicChoice
from raftlog.types import TopicPartition

UNLIMITED = (1 << 63) - 1

Targets = Mapping[TopicPartition, PartitionLog]


def choose_batch_end(
    start: StreamOffset,
    logs: Sequence[PartitionLog],
    rows_max: int,
    *,
    fail_on_data_loss: bool,
    targets: Targets | None = None,
) -> StreamOffset:
    """Return the end of a micro-batch that begins at `start`; `start` itself if there is nothing new.

    `targets`: logs at the start of a query with trigger(availableNow=True), which does not read newer records.
    Raises `DataLost` for topics that were deleted or created anew, and for logs that do not contain the stream's
    position."""
    ids = {log.topic: log.topic_id for log in logs}
    _report_lost_topics(start, ids, fail_on_data_loss)
    offsets: Offsets = {}
    waiting: dict[TopicPartition, int] = {}
    for log in logs:
        known = start.offsets.get(log.place) if start.ids.get(log.topic) == log.topic_id else None
        end = _end_of_partition(log, known, targets)
        if end is None:
            continue
        offsets[log.place] = log.start if known is None else _start_of_partition(log, known, fail_on_data_loss)
        if known is not None and end > offsets[log.place]:
            waiting[log.place] = end - offsets[log.place]
    for place, count in limit_offsets(waiting, rows_max).items():
        offsets[place] += count
    offsets |= {
        place: offset  # an older view of the cluster lacks partitions that were added just now
        for place, offset in start.offsets.items()
        if place not in offsets and start.ids[place.topic] == ids.get(place.topic)
    }
    there = {place.topic for place in offsets}
    ids = {topic: topic_id for topic, topic_id in ids.items() if topic in there}
    if offsets == start.offsets and ids == start.ids:
        return start
    begins = {
        place: offset for place, offset in start.offsets.items() if ids.get(place.topic) == start.ids[place.topic]
    }
    return StreamOffset(ids, offsets, begins=begins if start.is_initial else None)


def check_subscribed(start: StreamOffset, choice: TopicChoice) -> None:
    """Raise `CheckpointMismatch` unless the query still reads all topics of its checkpoint."""
    others = sorted(set(start.ids) - set(choice.select(start.ids)))
    if others:
        raise CheckpointMismatch(
            f"the checkpoint has read {', '.join(others)}, and the query now reads {choice}: give it all of these, or "
            "another checkpointLocation"
        )


def _report_lost_topics(start: StreamOffset, ids: Mapping[str, str], fail_on_data_loss: bool) -> None:
    """Raise `DataLost`, or warn, for topics of the stream that were deleted or created anew."""
    for topic, topic_id in start.ids.items():
        if topic not in ids:
            report_loss(f"the topic {topic}, which the stream has read, was deleted", fail_on_data_loss)
        elif ids[topic] != topic_id:
            report_loss(
                f"the topic {topic} is not the one that the stream has read ({ids[topic]}, and it was {topic_id}): it "
                "was deleted and created anew, or the checkpoint belongs to another cluster",
                fail_on_data_loss,
            )


def _end_of_partition(log: PartitionLog, known: int | None, targets: Targets | None) -> int | None:
    """Return the end of a micro-batch in a partition.

    Without `targets` it is the present end of the log. With `targets` it is at most the partition's target; for a
    partition without a target it is `known`, the stream's position (None: not read yet)."""
    if targets is None:
        return log.end
    target = targets.get(log.place)
    if target is None or target.topic_id != log.topic_id:
        return known
    return min(log.end, target.end)


def _start_of_partition(log: PartitionLog, known: int, fail_on_data_loss: bool) -> int:
    """Return the offset at which the stream continues; raises `DataLost`."""
    if known > log.end:
        lost = f"{log.place}: the stream has read up to offset {known}, and the log ends at {log.end}: records are lost"
        report_loss(f"{lost}, or the checkpoint belongs to another cluster", fail_on_data_loss)
        return log.end
    if known < log.start:
        lost = f"{log.place}: records from offset {known} to {log.start} (exclusive) were deleted before they were read"
        report_loss(lost, fail_on_data_loss)
    return max(known, log.start)
