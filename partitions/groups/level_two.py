"""Committed offsets as release 0.1.0 wrote them: events in a log whose fold only rises. Pure; they are only read.

An event is a JSON object: the watermarks of one group are at least these. The fold does not depend on the order of the
events, nor on how often each is there. Later releases write keyed records (`records`) behind them.

    {"kind": "offsets_committed", "group": …, "topic_ids": {topic: uuid}, "offsets": [[topic, partition, offset], …]}

What was committed in a topic that was deleted belongs to its uuid, not to a later topic of the same name.
"""

from typing import NamedTuple
from uuid import UUID

import orjson

from raftlog.errors import FormatError
from raftlog.types import Offset


class Watermark(NamedTuple):
    """A group has read everything below `offset` of a partition."""

    group: str
    topic_id: UUID
    partition: int
    offset: Offset


def watermarks_in(value: bytes | None) -> list[Watermark]:
    """What an event says; raises `FormatError` for what this version does not know."""
    try:
        event = orjson.loads(value or b"")
        match event:
            case {"kind": "offsets_committed", "group": str(group), "topic_ids": dict(ids), "offsets": list(offsets)}:
                topics = {name: UUID(topic_id) for name, topic_id in ids.items()}
                return [Watermark(group, topics[topic], number, Offset(offset)) for topic, number, offset in offsets]
    except orjson.JSONDecodeError as error:
        raise FormatError(f"a record of committed offsets is no JSON: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"a record of committed offsets cannot be read: {error!r}") from None
    raise FormatError("a record of committed offsets that this version does not know")
