"""Incarnations of recreated topics in histories: each has partitions of its own, `name@id/number`.

A client sends to a name, and assumes a topic for it; the send may go to another topic. So a send is recorded with the
assumed topic, and `resolve_incarnations` corrects it by the answers and polls of the whole test: an answered send
belongs to the topic in the answer, any other to the first topic in which its values were read, otherwise to the assumed
one. This hides no anomaly: checkers detect a value that is in another topic as well.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import orjson

from jepsen.checkers.history import incarnation_of, name_and_id
from raftlog.types import TopicPartition

UNKNOWN: Final = "unknown"
"""Text in place of an unknown topic id."""
_SEND: Final = b'"kind":"send"'
_POLL: Final = b'"kind":"poll"'
_SHOWN_ID: Final = 8


def shorten_id(topic_id: str) -> str:
    """Return the part of a topic's uuid that histories contain."""
    return topic_id[:_SHOWN_ID]


def incarnation_partition(name: str, topic_id: str, partition: int) -> TopicPartition:
    """Return a partition of an incarnation; `topic_id` is a shortened id."""
    return TopicPartition(incarnation_of(name, topic_id or UNKNOWN), partition)


def without_topic_id(place: TopicPartition) -> TopicPartition:
    """Return the partition with the topic name without its id."""
    found = name_and_id(place)
    return place if found is None else place._replace(topic=found[0])


def make_resolver(lines: Iterable[bytes]) -> Callable[[bytes], bytes]:
    """Return the function that corrects the incarnations in a line, given all lines of the history in any order."""
    assumed: dict[Any, str] = {}
    answered: dict[Any, str] = {}
    shown: dict[Any, str] = {}
    for line in lines:
        if _SEND in line:
            entry = orjson.loads(line)
            partition = entry["value"]["partition"]
            if "@" in partition:
                assumed.update(dict.fromkeys(entry["value"]["values"], partition))
            if entry["type"] == "ok" and "topic_id" in entry:
                answered.update(dict.fromkeys(entry["value"]["values"], _with_topic_id(partition, entry["topic_id"])))
        elif _POLL in line and b"@" in line:
            for fetched in orjson.loads(line).get("value") or ():
                for value in fetched["values"]:
                    shown.setdefault(value, fetched["partition"])
    homes = {value: answered.get(value) or shown.get(value) or partition for value, partition in assumed.items()}
    moved = {value: home for value, home in homes.items() if home != assumed[value]}
    return lambda line: _resolve_line(line, moved)


def resolve_incarnations(lines: Iterable[bytes], again: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of `again` with correct incarnations; `lines` are the same lines, in any order."""
    return map(make_resolver(lines), again)


def _with_topic_id(partition: str, topic_id: str) -> str:
    """Return the name of a partition with another topic id, or with one at all."""
    topic, _, number = partition.rpartition("/")
    return str(incarnation_partition(topic.partition("@")[0], topic_id, int(number)))


def _resolve_line(line: bytes, homes: dict[Any, str]) -> bytes:
    """Return the line with the incarnation in which its values were stored; `homes` has the topic ids by value."""
    if _SEND not in line:
        return line
    entry = orjson.loads(line)
    home = homes.get(entry["value"]["values"][0])
    if home is None:
        return line
    entry["value"]["partition"] = home
    return orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)
