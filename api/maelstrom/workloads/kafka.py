"""Workload `kafka`: for each key a log with offsets without gaps, and a committed offset that only rises.

poll                       committed messages of this node's copy; a node that lags returns fewer of them
list_committed_offsets     linearizable: includes every commit that was answered before
"""

from typing import Any, Final

from raftlog.api.maelstrom.errors import Code, MaelstromError, Malformed
from raftlog.api.maelstrom.keys import Keys
from raftlog.api.maelstrom.machine import COMMIT, SEND, command
from raftlog.api.maelstrom.messages import field, parse_offsets, parse_value, text_of
from raftlog.partitions.deadline import Deadline

MESSAGES_MAX: Final = 1_000
"""Messages of one key that a poll returns."""
POLL_CHARACTERS_MAX: Final = 1 << 20
"""Characters after which a poll returns no further message."""
Body = dict[str, Any]


async def send(keys: Keys, body: Body, deadline: Deadline) -> Body:
    """Append a message to the log of a key; return its offset."""
    outcome = await keys.execute(command(field(body, "key", str), SEND, field(body, "msg", object)), deadline)
    if outcome.code is not None:
        raise MaelstromError(Code.ABORT, "the command was not executed")
    return {"offset": outcome.offset}


async def poll(keys: Keys, body: Body, deadline: Deadline) -> Body:
    """Return messages from the given offsets on, from this node's copy."""
    found: dict[str, list[list[Any]]] = {}
    left = POLL_CHARACTERS_MAX
    for key, first in parse_offsets(body).items():
        text = text_of(key)
        messages = keys.keyspace_of(text).machine.messages.get(text, [])
        for offset, message in enumerate(messages[first : first + MESSAGES_MAX], first):
            if left <= 0:
                return {"msgs": found}
            left -= len(message)
            found.setdefault(key, []).append([offset, parse_value(message)])
    return {"msgs": found}


async def commit_offsets(keys: Keys, body: Body, deadline: Deadline) -> Body:
    """Commit offsets; those at or below the committed ones of this node's copy are skipped."""
    wanted = [
        command(key, COMMIT, offset)
        for key, offset in parse_offsets(body).items()
        if keys.keyspace_of(text_of(key)).machine.committed.get(text_of(key), -1) < offset
    ]
    if wanted:
        await keys.execute_all(wanted, deadline)
    return {}


async def list_committed_offsets(keys: Keys, body: Body, deadline: Deadline) -> Body:
    """Return the committed offsets of keys, linearizable; keys without one are left out."""
    texts: dict[str, str] = {}
    for key in field(body, "keys", list):
        if not isinstance(key, str):
            raise Malformed(f"key {text_of(key)[:40]} of list_committed_offsets is not a str")
        texts[key] = text_of(key)
    spaces = {keys.keyspace_of(text).number: keys.keyspace_of(text) for text in texts.values()}
    await keys.confirm_all(list(spaces.values()), deadline)
    known = {key: keys.keyspace_of(text).machine.committed.get(text) for key, text in texts.items()}
    return {"offsets": {key: offset for key, offset in known.items() if offset is not None}}
