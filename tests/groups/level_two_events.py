"""Committed offsets as release 0.1.0 wrote them, for tests that read them."""

from collections.abc import Mapping

import orjson

from raftlog.types import Offset, TopicPartition


def event_of(group: str, offsets: Mapping[TopicPartition, Offset], topic_ids: Mapping[str, str]) -> bytes:
    """Return the record of a commit; `topic_ids` are uuids of the topics by name."""
    return orjson.dumps(
        {
            "kind": "offsets_committed",
            "group": group,
            "topic_ids": {topic: topic_ids[topic] for topic in sorted({key.topic for key in offsets})},
            "offsets": [[topic, partition, offset] for (topic, partition), offset in offsets.items()],
        }
    )
