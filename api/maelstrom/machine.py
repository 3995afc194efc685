"""What the keys of one group are: registers, elements of a set, logs with their committed offsets. Pure.

    command     a record: key is the key's text, value the JSON list [what, arguments …]
    send        the message stays in the log; here is only at which of the group's offsets it stands
    commit      raises the committed offset of a key, and never lowers it

Every replica applies the committed commands in the order of the log, so all are the same. A command that cannot be read
changes nothing, everywhere. Called by the keyspace.
"""

import json
from array import array
from typing import Any, Final, NamedTuple

from raftlog.api.maelstrom.errors import Code, Malformed
from raftlog.api.maelstrom.messages import text_of
from raftlog.records import NewRecord

SEND: Final = "send"
COMMIT: Final = "commit"
WRITE: Final = "write"
CAS: Final = "cas"
ADD: Final = "add"


class Command(NamedTuple):
    """Something to be done to a key; `what` is the JSON list. Both are texts."""

    key: str
    what: str

    def record(self) -> NewRecord:
        return NewRecord(self.what.encode(), self.key.encode())


class Outcome(NamedTuple):
    """What a committed command came to: `offset` of a send, `code` when it changed nothing."""

    code: Code | None = None
    offset: int = -1


_DONE: Final = Outcome()


def command(key: object, what: str, *arguments: object) -> Command:
    """Raises `Malformed` for what is too large."""
    return Command(text_of(key), text_of([what, *arguments]))


class Machine:
    """By the text of their keys."""

    def __init__(self) -> None:
        self.registers: dict[str, str] = {}
        self.elements: dict[str, None] = {}
        self.places: dict[str, array[int]] = {}
        """The group's offset of each message of a key: they rise, and the key's own offsets count them."""
        self.committed: dict[str, int] = {}

    def apply(self, offset: int, key: str, what: bytes) -> Outcome:
        """The command at this offset of the group; offsets rise."""
        try:
            return self._apply(offset, key, json.loads(what))
        except (ValueError, RecursionError, Malformed):
            return Outcome(Code.ABORT)

    def _apply(self, offset: int, key: str, parts: Any) -> Outcome:
        match parts:
            case ["send", _]:
                places = self.places.setdefault(key, array("q"))
                places.append(offset)
                return Outcome(offset=len(places) - 1)
            case ["commit", int(committed)]:
                self.committed[key] = max(committed, self.committed.get(key, 0))
                return _DONE
            case ["write", value]:
                self.registers[key] = text_of(value)
                return _DONE
            case ["cas", expected, value]:
                return self._compare_and_set(key, text_of(expected), text_of(value))
            case ["add"]:
                self.elements[key] = None
                return _DONE
        return Outcome(Code.ABORT)

    def _compare_and_set(self, key: str, expected: str, value: str) -> Outcome:
        found = self.registers.get(key)
        if found is None:
            return Outcome(Code.KEY_DOES_NOT_EXIST)
        if found != expected:
            return Outcome(Code.PRECONDITION_FAILED)
        self.registers[key] = value
        return _DONE
