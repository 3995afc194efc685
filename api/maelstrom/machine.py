"""State machine of one keyspace: registers, set elements, logs with committed offsets. Pure.

    command     a record: key is the key's text, value the JSON list [kind, arguments …]
    send        appends a message to the key's own log; its offset is the number of messages before it
    commit      raises the committed offset of a key, and never lowers it

Every replica applies the committed commands in the order of the log, so all have the same state. A command that cannot
be parsed changes nothing, on every replica. Called by the keyspace."""

import json
from typing import Any, Final, NamedTuple

from raftlog.api.maelstrom.errors import Code, Malformed
from raftlog.api.maelstrom.messages import text_of
from raftlog.records import NewRecord

SEND: Final = "send"
COMMIT: Final = "commit"
WRITE: Final = "write"
CAS: Final = "cas"
ADD: Final = "add"


class KeyCommand(NamedTuple):
    """Command for one key: the text of the key, and the JSON list of the command's kind and arguments as text."""

    key: str
    what: str

    def record(self) -> NewRecord:
        """Return the command as a record of the log."""
        return NewRecord(self.what.encode(), self.key.encode())


class CommandOutcome(NamedTuple):
    """Outcome of a committed command: `offset` of a send; `code` if the command had no effect."""

    code: Code | None = None
    offset: int = -1


_DONE: Final = CommandOutcome()


def command(key: object, kind: str, *arguments: object) -> KeyCommand:
    """Return the encoded command of this kind; raises `Malformed` if it is too large."""
    return KeyCommand(text_of(key), text_of([kind, *arguments]))


class KeyMachine:
    """State machine of the keys of one Raft group; each mapping is by the text of the key."""

    def __init__(self) -> None:
        self.registers: dict[str, str] = {}
        self.elements: dict[str, None] = {}
        self.messages: dict[str, list[str]] = {}
        """Messages of each key as JSON texts; the index is the offset."""
        self.committed: dict[str, int] = {}

    def apply(self, key: str, command: bytes) -> CommandOutcome:
        """Apply the next committed command, which concerns `key`; return its outcome."""
        try:
            return self._apply(key, json.loads(command))
        except (ValueError, RecursionError, Malformed):
            return CommandOutcome(Code.ABORT)

    def _apply(self, key: str, parts: Any) -> CommandOutcome:
        """Apply a command to one key; return its outcome."""
        match parts:
            case ["send", message]:
                text = text_of(message)
                messages = self.messages.setdefault(key, [])
                messages.append(text)
                return CommandOutcome(offset=len(messages) - 1)
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
        return CommandOutcome(Code.ABORT)

    def _compare_and_set(self, key: str, expected: str, value: str) -> CommandOutcome:
        """Set a register to `value` if its value is `expected`; return the outcome."""
        found = self.registers.get(key)
        if found is None:
            return CommandOutcome(Code.KEY_DOES_NOT_EXIST)
        if found != expected:
            return CommandOutcome(Code.PRECONDITION_FAILED)
        self.registers[key] = value
        return _DONE
