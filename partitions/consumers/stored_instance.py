"""Record of an instance in the log of its group, with which the next coordinator continues. Pure.

Positions are not part of it: they are the committed offsets, as for every consumer. But when a position was *chosen*
and nothing was committed since, the next coordinator must not choose another: `latest` would skip records that
arrived meanwhile, and a replay that the client asked for would end. Such a choice is an anchor; it holds as long as
the committed offset is the one at the time of the choice."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from raftlog.errors import FormatError, InvalidConsumer
from raftlog.partitions.consumers.settings import InstanceSettings, read_stored_settings
from raftlog.types import Offset, TopicPartition

_VERSION = 1
NOTHING_COMMITTED = Offset(-1)


class Anchor(NamedTuple):
    """Position that a client chose, and the offset that was committed at that time, or `NOTHING_COMMITTED`."""

    offset: Offset
    committed: Offset


class StoredInstance(NamedTuple):
    """Stored state of an instance; at most one of `topics`, `pattern` and `assigned` is set."""

    settings: InstanceSettings
    topics: tuple[str, ...] = ()
    """Topics subscribed by name."""
    pattern: str | None = None
    """Pattern of the subscription: all topics whose whole name it matches."""
    assigned: tuple[TopicPartition, ...] = ()
    """Partitions assigned by hand, without the group."""
    member_id: str = ""
    """Member id in the group, as long as the instance is a group member."""
    anchors: Mapping[TopicPartition, Anchor] = {}
    """Chosen positions, by partition."""

    @property
    def is_subscribed(self) -> bool:
        return bool(self.topics) or self.pattern is not None

    def as_record(self) -> dict[str, Any]:
        """Return the record for the log."""
        anchors: dict[str, list[list[int]]] = {}
        for (topic, number), anchor in self.anchors.items():
            anchors.setdefault(topic, []).append([number, anchor.offset, anchor.committed])
        return {
            "version": _VERSION,
            "settings": self.settings.as_mapping(),
            "topics": list(self.topics),
            "pattern": self.pattern,
            "assigned": [[topic, number] for topic, number in self.assigned],
            "member_id": self.member_id,
            "anchors": anchors,
        }


class _Record(msgspec.Struct):
    """Fields of the record in the log, for its validation."""

    version: Literal[1]
    settings: dict[str, Any]
    topics: tuple[str, ...]
    pattern: str | None
    assigned: tuple[TopicPartition, ...]
    member_id: str
    anchors: dict[str, list[tuple[int, Offset, Offset]]]
    """Rows by topic: partition, and the fields of its anchor."""


def from_record(record: Mapping[str, Any]) -> StoredInstance:
    """Return the instance that a record of the log describes. Raises `FormatError`."""
    try:
        fields = msgspec.convert(record, _Record)
        settings = read_stored_settings(fields.settings)
    except (InvalidConsumer, msgspec.ValidationError) as error:
        raise FormatError(f"the record of a consumer instance cannot be read: {error}; run a newer release") from None
    anchors = {
        TopicPartition(topic, number): Anchor(offset, committed)
        for topic, rows in fields.anchors.items()
        for number, offset, committed in rows
    }
    return StoredInstance(settings, fields.topics, fields.pattern, fields.assigned, fields.member_id, anchors)
