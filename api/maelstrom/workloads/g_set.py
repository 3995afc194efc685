"""Workload `g-set`: elements are spread over the Raft groups; reads return every acknowledged element."""

from typing import Any

from raftlog.api.maelstrom.keys import Keys
from raftlog.api.maelstrom.machine import ADD, command
from raftlog.api.maelstrom.messages import field, parse_value
from raftlog.partitions.deadline import Deadline

Body = dict[str, Any]


async def add(keys: Keys, body: Body, deadline: Deadline) -> Body:
    """Add an element to the set, unless this node's copy already has it."""
    wanted = command(field(body, "element", object), ADD)
    if wanted.key not in keys.keyspace_of(wanted.key).machine.elements:
        await keys.execute(wanted, deadline, may_repeat=True)
    return {}


async def read(keys: Keys, body: Body, deadline: Deadline) -> Body:
    """Return all elements, after a read index of each Raft group."""
    await keys.confirm_all(keys.keyspaces(), deadline)
    return {"value": [parse_value(element) for space in keys.keyspaces() for element in space.machine.elements]}
