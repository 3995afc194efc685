"""Workload `lin-kv`: linearizable registers with read, write and compare-and-set."""

from typing import Any

from raftlog.api.maelstrom.errors import Code, MaelstromError
from raftlog.api.maelstrom.keys import Keys
from raftlog.api.maelstrom.machine import CAS, WRITE, CommandOutcome, command
from raftlog.api.maelstrom.messages import field, parse_value, text_of
from raftlog.partitions.deadline import Deadline

Body = dict[str, Any]


async def read(keys: Keys, body: Body, deadline: Deadline) -> Body:
    """Return the value of a register, linearizable. Raises `MaelstromError` for an unknown key."""
    key = text_of(field(body, "key", object))
    space = keys.keyspace_of(key)
    await keys.confirm(space, deadline)
    value = space.machine.registers.get(key)
    if value is None:
        raise MaelstromError(Code.KEY_DOES_NOT_EXIST, f"there is no key {key[:100]}")
    return {"value": parse_value(value)}


async def write(keys: Keys, body: Body, deadline: Deadline) -> Body:
    """Set the value of a register."""
    wanted = command(field(body, "key", object), WRITE, field(body, "value", object))
    _check(await keys.execute(wanted, deadline))
    return {}


async def cas(keys: Keys, body: Body, deadline: Deadline) -> Body:
    """Set the value of a register if it has the expected value. Raises `MaelstromError` otherwise."""
    expected, value = field(body, "from", object), field(body, "to", object)
    _check(await keys.execute(command(field(body, "key", object), CAS, expected, value), deadline))
    return {}


def _check(outcome: CommandOutcome) -> None:
    """Raise the error in the outcome of a register's command."""
    if outcome.code is not None:
        raise MaelstromError(outcome.code, _TEXTS.get(outcome.code, "the command was not executed"))


_TEXTS = {
    Code.KEY_DOES_NOT_EXIST: "there is no such key",
    Code.PRECONDITION_FAILED: "the key has another value",
}
