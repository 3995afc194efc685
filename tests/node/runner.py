"""One node in a process of its own, controlled by lines of JSON: `python -m tests.node.runner`.

{"open": {data_dir, node_id, …}}                 → {"disk": …, "epoch": …, "address": […]}, or {"error": …}
{"peers": {node: [host, port]}, "disks": {…}}    → {}
{"create": [group, …], "members": [[node, disk], …]}
{"load": writers}                                → {}, and from then on {"acked": [offset, value]} while it leads
{"quiet": 0}                                     → {}; no load any more
{"settle": index}                                → {"last": index} once that is there, and all of the log delivered
{"status": 0}                                    → some counts, as they are
{"stepped_down": 0} · {"refused": 0}             → the same, once it leads nothing · once every peer refuses it"""

import asyncio
import contextlib
import json
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from raftlog.errors import OutcomeUnknown, RaftlogError
from raftlog.partitions.node import Node
from raftlog.raft import Role
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.roll import RollMember
from raftlog.types import NodeId
from tests.node.nodes import GROUP, first_roll, settings_of

_VALUE_BYTES = 100


class Runner:
    """Node of this process, and its load."""

    def __init__(self) -> None:
        self.node: Node
        self._moved = asyncio.Event()
        self._load: list[asyncio.Task[None]] = []

    async def execute(self, command: dict[str, Any]) -> dict[str, Any]:
        name = next(iter(command))
        action: Callable[..., Any] = getattr(self, f"do_{name}")
        try:
            return dict(await action(**command) or {})
        except RaftlogError as error:
            return {"error": f"{type(error).__name__}: {error}"}

    async def do_open(self, open: dict[str, Any]) -> dict[str, Any]:  # noqa: A002 - the command's name
        directory, number = Path(open.pop("directory")), open.pop("node_id")
        peers = {int(node): tuple(at) for node, at in open.pop("peers", {}).items()}
        self.node = node = await Node.open(settings_of(directory, number, peers=peers, **open))
        stepped = node.driver.on_step
        node.driver.on_step = lambda group, ready: (stepped(group, ready), self._moved.set())  # type: ignore[func-returns-value]
        await node.start()
        identity = node.identity
        return {"disk": str(identity.disk_uuid), "epoch": identity.boot_epoch, "address": node.transport.address}

    async def do_peers(self, peers: dict[str, list[Any]], disks: dict[str, str]) -> None:
        addresses = {NodeId(int(node)): (str(at[0]), int(at[1])) for node, at in peers.items()}
        self.node.set_peers(addresses, {NodeId(int(node)): uuid.UUID(disk) for node, disk in disks.items()})

    async def do_create(self, create: list[int], members: list[list[Any]]) -> None:
        voters = [RollMember(int(node), uuid.UUID(disk)) for node, disk in members]
        await self.node.create_groups([(first_roll(uuid.UUID(int=group), voters), None) for group in create])

    async def do_load(self, load: int) -> None:
        mine = f"{self.node.identity.node_id}.{self.node.identity.boot_epoch}"
        self._load = [asyncio.create_task(self._write(f"{mine}.{writer}")) for writer in range(load)]

    async def _write(self, name: str) -> None:
        """Write unique values one after another while this node leads."""
        number = 0
        while not self.node.ended.done():
            group = await self._until_leading()
            value = f"{name}.{number} ".ljust(_VALUE_BYTES, "x")
            number += 1
            try:
                done = await group.propose([build_batch([NewRecord(value.encode(), None, 1_000)])])
            except OutcomeUnknown:
                continue
            except RaftlogError:
                self._moved.clear()
                await self._moved.wait()
                continue
            say({"acked": [done.base_offset, value]})

    async def _until_leading(self) -> PartitionReplica:
        while True:
            group, known = self.node.find_replica(GROUP), self.node.leader_of(GROUP)
            if group is not None and known is not None and known.is_ready:
                return group
            self._moved.clear()
            await self._moved.wait()

    async def do_quiet(self, quiet: int) -> None:
        for task in self._load:
            task.cancel()
        self._load.clear()

    async def do_settle(self, settle: int) -> dict[str, Any]:
        group = self.node.find_replica(GROUP)
        assert group is not None
        await self._until(lambda: group.applied_index == group.log.written_index == group.log.last_index >= settle)
        return {"last": group.log.last_index}

    async def do_refused(self, refused: int) -> dict[str, Any]:
        peers = self.node.transport.peers
        await self._until(lambda: all("refuses the connection" in (peer.raft.last_error or "") for peer in peers()))
        return await self.do_status(0)

    async def do_ended(self, ended: int) -> dict[str, Any]:
        return {"reason": str(await self.node.ended)}

    async def do_stepped_down(self, stepped_down: int) -> dict[str, Any]:
        await self._until(lambda: all(group.core.role is not Role.LEADER for group in self.node.driver.groups.values()))
        return await self.do_status(0)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._moved.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), 0.1)

    async def do_status(self, status: int) -> dict[str, Any]:
        known = self.node.leader_of(GROUP)
        return {
            "leads": bool(known and known.is_ready),
            "working": self.node.is_working,
            "refusals": [peer.raft.last_error for peer in self.node.transport.peers()],
            "complaints": self.node.transport.protocol_errors,
        }


def say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    runner = Runner()
    while line := await reader.readline():
        command = json.loads(line)
        say({"answer": await runner.execute(command)})


if __name__ == "__main__":
    uvloop.run(main())
