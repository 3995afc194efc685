"""Workload `g-set`: elements are spread over the Raft groups; reads return every acknowledged element."""

from typing import Any

from raftlog.api.maelstrom.keys import Keys
from raftlog.api.maelstrom.machine import ADD, command
from raftlog.api.maelstrom.messages import field, value_of
from raftlog.partitions.deadline import Deadline

Body = dict[str, Any]


async def add(keys: Keys, body: Body, deadline: Deadline) -> Body:
    wanted = command(field(body, "element", object), ADD)
    if wanted.key not in keys.keyspace_of(wanted.key).machine.elements:
        await keys.execute(wanted, deadline, may_repeat=True)
    return {}


async def read(keys: Keys, body: Body, deadline: Deadline) -> Body:
    await keys.confirm_all(keys.all(), deadline)
    return {"value": [value_of(element) for space in keys.all() for element in space.machine.elements]}
