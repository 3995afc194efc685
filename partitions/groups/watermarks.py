"""Committed offsets as events in a log, and their fold. Pure.

An event is a JSON object: the watermarks of one group are at least these. A watermark only rises, so the fold does not
depend on the order of the events, nor on how often each is there, and everything before a restatement of the whole
state can go.

    {"kind": "offsets_committed", "group": …, "topic_ids": {topic: uuid}, "offsets": [[topic, partition, offset], …]}

What was committed in a topic that was deleted belongs to its uuid, not to a later topic of the same name.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from raftlog.errors import FormatError
from raftlog.types import Offset, TopicPartition

Event = dict[str, Any]
Key = tuple[str, int]
"""Uuid of a topic, and partition."""
_OFFSETS_PER_EVENT = 5_000
_KIND = "offsets_committed"


def committed(group: str, offsets: Mapping[TopicPartition, Offset], topic_ids: Mapping[str, str]) -> bytes:
    """The record of a commit."""
    return orjson.dumps(
        {
            "kind": _KIND,
            "group": group,
            "topic_ids": {topic: topic_ids[topic] for topic in sorted({key.topic for key in offsets})},
            "offsets": [[topic, partition, offset] for (topic, partition), offset in offsets.items()],
        }
    )


class Watermarks:
    """By group: the committed offset of each partition, by the topic's uuid."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Key, Offset]] = {}

    def apply(self, value: bytes | None) -> None:
        """Fold in one record; raises `FormatError` for what this version does not know."""
        try:
            event = orjson.loads(value or b"")
        except orjson.JSONDecodeError as error:
            raise FormatError(f"a record of committed offsets is no JSON: {error}") from None
        match event:
            case {"kind": "offsets_committed", "group": str(name), "topic_ids": dict(ids), "offsets": list(offsets)}:
                group = self._groups.setdefault(name, {})
                for topic, partition, offset in offsets:
                    key = (ids[topic], partition)
                    if offset > group.get(key, -1):
                        group[key] = Offset(offset)
            case _:
                raise FormatError("a record of committed offsets that this version does not know")

    def groups(self) -> list[str]:
        """Sorted."""
        return sorted(self._groups)

    def of(self, group: str) -> Mapping[Key, Offset]:
        """Empty for a group that never committed."""
        return self._groups.get(group, {})

    def restatement(self, names: Mapping[str, str], is_deleted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
        """Group and record of events that say all of this again, but for topics that are known to be deleted.

        `names` are those of topics by uuid, as far as known: a topic that was made just now is called by its uuid.
        """
        for group, offsets in self._groups.items():
            keys = [key for key in offsets if not is_deleted(key[0])]
            for first in range(0, len(keys), _OFFSETS_PER_EVENT):
                some = keys[first : first + _OFFSETS_PER_EVENT]
                named = {TopicPartition(names.get(uuid, uuid), number): offsets[uuid, number] for uuid, number in some}
                yield group, committed(group, named, {names.get(uuid, uuid): uuid for uuid, _ in some})
