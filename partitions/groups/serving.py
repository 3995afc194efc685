"""What a coordinator is asked, by the node that a client talks to; here or over there it is the same.

One hop: whoever serves is the coordinator, or says `NotLeader`. Called by the service's `ask`.
"""

import asyncio
from typing import Any, Final
from uuid import UUID

from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.coordinator import Coordinator
from raftlog.partitions.groups.wire import (
    commits_of,
    errors_to,
    heartbeat_of,
    join_of,
    large,
    leave_of,
    malformed,
    member_of,
    numbers_of,
    offsets_to,
    plain,
    sync_of,
)
from raftlog.runtime.rpc import Answer

JOIN, SYNC, HEARTBEAT, LEAVE = "groups.join", "groups.sync", "groups.heartbeat", "groups.leave"
COMMIT, OFFSETS, DESCRIBE, NAMES = "groups.commit", "groups.offsets", "groups.describe", "groups.names"
DELETE, DELETE_OFFSETS, RESET = "groups.delete", "groups.delete_offsets", "groups.reset"

_SLICE: Final = 64
"""Groups that are looked at in one turn of the loop."""


class CoordinatorRequests:
    """By name in `handlers`; every one is given a header, which says what is asked in `is`."""

    def __init__(self) -> None:
        self.handlers = {
            JOIN: self._join,
            SYNC: self._sync,
            HEARTBEAT: self._heartbeat,
            LEAVE: self._leave,
            COMMIT: self._commit,
            OFFSETS: self._committed,
            DESCRIBE: self._describe,
            NAMES: self._names,
            DELETE: self._delete,
            DELETE_OFFSETS: self._delete_offsets,
            RESET: self._reset,
        }

    async def _join(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        return Answer(plain(await coordinator.join(join_of(header["is"]), deadline=deadline)))

    async def _sync(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        return Answer(plain(await coordinator.sync(sync_of(header["is"]), deadline=deadline)))

    async def _heartbeat(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        await coordinator.heartbeat(heartbeat_of(header["is"]), deadline=deadline)
        return Answer()

    async def _leave(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        left = await coordinator.leave(leave_of(header["is"]), deadline=deadline)
        return Answer(errors_to(error for _, error in left.members))

    async def _commit(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        match header:
            case {"group": str(group), "offsets": rows, "member": member}:
                offsets = coordinator.offsets
                committed = await offsets.commit(group, commits_of(rows), member_of(member), deadline)
                return large(offsets_to(committed))
        raise malformed(COMMIT)

    async def _committed(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        return large(offsets_to(await coordinator.offsets.committed(header["group"], deadline)))

    async def _describe(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        await coordinator.current(deadline)
        described = coordinator.machine.describe(header["group"])
        return large([None if described is None else plain(described), header["group"] in coordinator.folded.offsets])

    async def _names(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        await coordinator.current(deadline)
        rows = []
        names = sorted(coordinator.folded.names().union(coordinator.machine.names()))
        for number, name in enumerate(names, 1):
            described = coordinator.machine.describe(name)
            if described is None:
                rows.append([name, "Empty", "", "", 0, 0])
            else:
                _, state, protocol_type, protocol, generation, _, members, _ = described
                rows.append([name, state, protocol_type, protocol, generation, len(members)])
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return large(rows)

    async def _delete(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        await coordinator.offsets.delete_group(header["group"], deadline)
        return Answer()

    async def _delete_offsets(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        match header:
            case {"group": str(group), "topic": str(topic), "topic_id": bytes(topic_id)} if len(topic_id) == 16:
                offsets = coordinator.offsets
                return large(await offsets.delete_topic(group, topic, UUID(bytes=topic_id), deadline))
        raise malformed(DELETE_OFFSETS)

    async def _reset(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        match header:
            case {"group": str(group), "offsets": rows}:
                before = await coordinator.offsets.reset(group, numbers_of(rows), deadline)
                return large(offsets_to({place: (offset,) for place, offset in before.items()}))
        raise malformed(RESET)
