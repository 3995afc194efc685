"""What the catalogue knows: the fold of its events. Pure; `catalogue.py` keeps the events on disk.

An event is a JSON object with a `kind`. A snapshot is a run of events marked `"snapshot": true` between
`snapshot_begin` and `snapshot_end` that replaces everything before it; a run without its end counts as absent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from raftlog.errors import FormatError
from raftlog.types import Offset, TopicPartition

Event = dict[str, Any]
_OFFSETS_PER_EVENT = 5_000


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """One topic. `group_ids` are the ids of its partitions' logs, in their order; `overrides` its own settings."""

    name: str
    topic_id: str
    group_ids: tuple[str, ...]
    overrides: Mapping[str, str]
    created_ms: int

    @property
    def partition_count(self) -> int:
        return len(self.group_ids)

    def event(self) -> Event:
        """The event that creates this topic."""
        return {
            "kind": "topic_created",
            "name": self.name,
            "topic_id": self.topic_id,
            "group_ids": list(self.group_ids),
            "overrides": dict(self.overrides),
            "created_ms": self.created_ms,
        }

    @classmethod
    def from_event(cls, event: Event) -> Self:
        return cls(
            event["name"], event["topic_id"], tuple(event["group_ids"]), dict(event["overrides"]), event["created_ms"]
        )


def topic_deleted(name: str) -> Event:
    """The topic and all group offsets in it go."""
    return {"kind": "topic_deleted", "name": name}


def topic_altered(name: str, overrides: Mapping[str, str]) -> Event:
    """The topic's own settings are these from now on."""
    return {"kind": "topic_altered", "name": name, "overrides": dict(overrides)}


def offsets_committed(group: str, offsets: Mapping[TopicPartition, Offset], topic_ids: Mapping[str, str]) -> Event:
    """The group's watermarks are at least these, in the topics of these ids: not in later ones of the same name."""
    return {
        "kind": "offsets_committed",
        "group": group,
        "topic_ids": {topic: topic_ids[topic] for topic in sorted({key.topic for key in offsets})},
        "offsets": [[topic, partition, offset] for (topic, partition), offset in offsets.items()],
    }


@dataclass(slots=True)
class CatalogueState:
    """Topics by name, and committed offsets by group."""

    topics: dict[str, TopicEntry] = field(default_factory=dict)
    groups: dict[str, dict[TopicPartition, Offset]] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Fold one event in; raises `FormatError` for a kind that this version does not know."""
        kind = event["kind"]
        if kind == "offsets_committed":
            self._apply_offsets(event)
        elif kind == "topic_created":
            self.topics[event["name"]] = TopicEntry.from_event(event)
        elif kind == "topic_deleted":
            self._apply_deleted(event["name"])
        elif kind == "topic_altered":
            if event["name"] in self.topics:
                entry = self.topics[event["name"]]
                self.topics[event["name"]] = replace(entry, overrides=dict(event["overrides"]))
        else:
            raise FormatError(f"the catalogue holds an event {kind!r} that this version does not know")

    def _apply_offsets(self, event: Event) -> None:
        """A watermark only rises: a late, retried or reordered commit never moves it back.

        What was on its way while its topic was deleted applies to nothing.
        """
        ids = event["topic_ids"]
        group = dict(self.groups.get(event["group"], {}))
        for topic, partition, offset in event["offsets"]:
            entry = self.topics.get(topic)
            key = TopicPartition(topic, partition)
            if entry is not None and entry.topic_id == ids[topic] and offset > group.get(key, -1):
                group[key] = offset
        if group:
            self.groups[event["group"]] = group

    def _apply_deleted(self, name: str) -> None:
        self.topics.pop(name, None)
        for group, offsets in list(self.groups.items()):
            left = {key: offset for key, offset in offsets.items() if key.topic != name}
            if not left:
                del self.groups[group]
            elif len(left) < len(offsets):
                self.groups[group] = left

    def snapshot(self) -> Iterator[Event]:
        """Events that make this state out of nothing, with their begin and end."""
        yield {"kind": "snapshot_begin"}
        for entry in self.topics.values():
            yield {**entry.event(), "snapshot": True}
        topic_ids = {name: entry.topic_id for name, entry in self.topics.items()}
        for group, offsets in self.groups.items():
            keys = list(offsets)
            for first in range(0, len(keys), _OFFSETS_PER_EVENT):
                some = {key: offsets[key] for key in keys[first : first + _OFFSETS_PER_EVENT]}
                yield {**offsets_committed(group, some, topic_ids), "snapshot": True}
        yield {"kind": "snapshot_end"}


class Replay:
    """Folds the events of a whole log, from its first record on."""

    def __init__(self, *, is_from_start: bool) -> None:
        self._state = CatalogueState() if is_from_start else None
        self._candidate: CatalogueState | None = None

    def apply(self, event: Event) -> None:
        """Take the next event. Snapshots are appended in one piece, so any other event ends an incomplete one."""
        kind = event["kind"]
        if kind == "snapshot_begin":
            self._candidate = CatalogueState()
        elif kind == "snapshot_end":
            if self._candidate is not None:
                self._state, self._candidate = self._candidate, None
        elif self._candidate is not None and event.get("snapshot"):
            self._candidate.apply(event)
        elif self._state is not None and not event.get("snapshot"):
            self._candidate = None
            self._state.apply(event)

    def result(self) -> CatalogueState:
        """The state after all events; raises `FormatError` when the beginning of the story is missing."""
        if self._state is None:
            raise FormatError("the catalogue's log begins in the middle and holds no complete snapshot")
        return self._state
