"""Position of a stream in the form of a query's checkpoint, and limit of a micro-batch. Pure.

    {"version": 1, "topics": {"orders": {"id": "2f0c…", "partitions": {"0": 12, "1": 7}}}}

Each number is the next offset to read. Spark stores only the ends of micro-batches. So two more fields make a query's
first micro-batch the same in every attempt: `initial` marks the position at which the query began, and `begins` in the
first end repeats that position. A new partition is added with the offset at which its reading begins, and is read from
the next micro-batch on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from raftlog.pipeline.errors import CheckpointMismatch
from raftlog.types import TopicPartition

VERSION: Final = 1

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True)
class StreamOffset:
    """Position of a streaming query: an offset for each partition; `ids` has the id of each topic in `offsets`."""

    ids: Mapping[str, str] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=dict)
    is_initial: bool = False
    begins: Offsets | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the position as a JSON object for Spark's checkpoint."""
        fields: dict[str, Any] = {"version": VERSION, "topics": self._encode_topics(self.offsets)}
        if self.is_initial:
            fields["initial"] = True
        if self.begins is not None:
            fields["begins"] = self._encode_topics(self.begins)
        return fields

    def _encode_topics(self, offsets: Offsets) -> dict[str, Any]:
        """Return offsets by topic and partition, with the ids of the topics."""
        topics: dict[str, Any] = {
            name: {"id": topic_id, "partitions": {}} for name, topic_id in sorted(self.ids.items())
        }
        for place, offset in sorted(offsets.items()):
            topics[place.topic]["partitions"][str(place.partition)] = offset
        return topics

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "StreamOffset":
        """Parse a checkpoint; raises `CheckpointMismatch` for one that this program did not write."""
        try:
            if fields["version"] != VERSION:
                raise CheckpointMismatch(
                    f"the checkpoint has offsets of version {fields['version']!r}; this program reads version {VERSION}"
                )
            ids = {str(name): str(topic["id"]) for name, topic in fields["topics"].items()}
            begins = dict(_decode_offsets(fields["begins"])) if "begins" in fields else None
            return cls(ids, dict(_decode_offsets(fields["topics"])), fields.get("initial") is True, begins)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointMismatch(
                f"the checkpoint holds offsets of another source, not of raftlog ({error!r}): take another "
                "checkpointLocation"
            ) from None


def _decode_offsets(topics: Mapping[str, Any]) -> Iterator[tuple[TopicPartition, int]]:
    """Yield the offset of each partition. Raises `ValueError`."""
    for name, topic in topics.items():
        for partition, offset in topic["partitions"].items():
            if type(offset) is not int or offset < 0:
                raise ValueError(f"{offset!r} is no offset")
            yield TopicPartition(str(name), int(partition)), offset


def ranges_between(start: StreamOffset, end: StreamOffset) -> list[tuple[TopicPartition, int, int]]:
    """Return the ranges between two positions by partition, for topics that have the same id in both."""
    is_first = start.is_initial and end.begins is not None
    begins, first_ids = (end.begins or {}, end.ids) if is_first else (start.offsets, start.ids)
    return [
        (place, begins[place], until)
        for place, until in sorted(end.offsets.items())
        if place in begins and first_ids.get(place.topic) == end.ids[place.topic] and begins[place] < until
    ]


def limit_offsets(waiting: Mapping[TopicPartition, int], rows_max: int) -> Offsets:
    """Return for each partition how many of its `waiting` offsets the next micro-batch reads.

    All if they are at most `rows_max`. Otherwise `rows_max` in proportion to the waiting offsets, at least one for each
    partition; if there are more partitions than rows, one for each of the partitions with most waiting offsets."""
    total, places = sum(waiting.values()), sorted(waiting, key=lambda place: (-waiting[place], place))
    if total <= rows_max:
        return dict(waiting)
    if rows_max <= len(places):
        return dict.fromkeys(places[:rows_max], 1)
    room, others = rows_max - len(places), total - len(places)
    taken = {place: 1 + (waiting[place] - 1) * room // others for place in places}
    left = rows_max - sum(taken.values())
    for place in [place for place in places if taken[place] < waiting[place]][:left]:
        taken[place] += 1
    return taken
