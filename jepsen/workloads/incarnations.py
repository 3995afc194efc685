"""Topics that come and go under one name, in histories: each incarnation has partitions of its own, `name@id/number`.

A client sends to a name, and assumes a topic for it; it may have gone to another topic by then. So a send is
written down with the belief, and `resolved` corrects by the answers and the polls of the whole test: a send
that was answered belongs to the topic that answered, one that was not to the first topic with its values, otherwise to
the one that was meant. Nothing is hidden by it: a value that is seen elsewhere as well is found by the checkers.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import orjson

from jepsen.checkers.history import incarnation_of, name_and_id
from raftlog.types import TopicPartition

UNKNOWN: Final = "unknown"
"""In place of an id that a client does not know."""
_SEND: Final = b'"kind":"send"'
_POLL: Final = b'"kind":"poll"'
_SHOWN_ID: Final = 8


def short(topic_id: str) -> str:
    """Return the part of a topic's uuid that histories contain."""
    return topic_id[:_SHOWN_ID]


def labelled(name: str, topic_id: str, partition: int) -> TopicPartition:
    """Return a partition of an incarnation; `topic_id` is shortened already."""
    return TopicPartition(incarnation_of(name, topic_id or UNKNOWN), partition)


def named(place: TopicPartition) -> TopicPartition:
    """Return the partition by the name that the service uses."""
    found = name_and_id(place)
    return place if found is None else place._replace(topic=found[0])


def resolver(lines: Iterable[bytes]) -> Callable[[bytes], bytes]:
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
                answered.update(dict.fromkeys(entry["value"]["values"], _moved(partition, entry["topic_id"])))
        elif _POLL in line and b"@" in line:
            for fetched in orjson.loads(line).get("value") or ():
                for value in fetched["values"]:
                    shown.setdefault(value, fetched["partition"])
    homes = {value: answered.get(value) or shown.get(value) or partition for value, partition in assumed.items()}
    moved = {value: home for value, home in homes.items() if home != assumed[value]}
    return lambda line: _resolved(line, moved)


def resolved(lines: Iterable[bytes], again: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of `again` with correct incarnations; `lines` are the same lines, in any order."""
    return map(resolver(lines), again)


def _moved(partition: str, topic_id: str) -> str:
    topic, _, number = partition.rpartition("/")
    return str(labelled(topic.partition("@")[0], topic_id, int(number)))


def _resolved(line: bytes, homes: dict[Any, str]) -> bytes:
    if _SEND not in line:
        return line
    entry = orjson.loads(line)
    home = homes.get(entry["value"]["values"][0])
    if home is None:
        return line
    entry["value"]["partition"] = home
    return orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)
