"""Process of one node of a cluster under measurement: `python -m bench.cluster_node`.

Each command and each answer is one line of JSON. The load is a client in the process of the leader. Single records
that arrive in one turn of the loop are put into one batch, as a broker does; with `alone` each is a batch and so an
entry of its own. Every value is different, and `verify` reads all of them back."""

import asyncio
import os
import time
import uuid
from functools import partial
from typing import Any

from bench.measure import require
from bench.node_commands import StallTimer, print_answer, process_costs, run
from bench.node_load import KEY_BYTES, Load
from bench.samples import VALUE_BYTES
from bench.shared_secret import SECRET
from bench.syncs import SyncCount
from raftlog.errors import RaftlogError
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.node import Node, NodeSettings
from raftlog.raft import Role
from raftlog.raft.core import RaftCore
from raftlog.records import NewRecord, build_batch, read_header, read_records
from raftlog.runtime.replica.partition_replica import Committed, PartitionReplica
from raftlog.storage.roll import Roll, RollMember
from raftlog.types import NodeId

GROUP = uuid.UUID(int=77)
READ_BYTES = 1 << 22
_LEADER_MS_MAX = 20_000
_POLL_S = 0.02


class Accumulator:
    """Accumulator that appends the values of one turn of the loop as one batch."""

    def __init__(self, group: PartitionReplica) -> None:
        self._group = group
        self._loop = asyncio.get_running_loop()
        self._values: list[bytes] = []
        self._waiting: list[asyncio.Future[None]] = []

    def append(self, value: bytes) -> "asyncio.Future[None]":
        """Add a value to the batch of this turn of the loop; return a future for its commit."""
        if not self._values:
            self._loop.call_soon(self._propose)
        done: asyncio.Future[None] = self._loop.create_future()
        self._values.append(value)
        self._waiting.append(done)
        return done

    def _propose(self) -> None:
        """Propose the collected values as one batch."""
        values, self._values = self._values, []
        waiting, self._waiting = self._waiting, []
        proposed = self._group.propose([build_batch(values)])
        proposed.add_done_callback(lambda future: _complete(waiting, future))


def _complete(waiting: list["asyncio.Future[None]"], proposed: "asyncio.Future[Committed]") -> None:
    """Complete the futures of a batch's values with the outcome of its proposal."""
    error = proposed.exception()
    for future in waiting:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


class AllGroupsWriter:
    """Writer of one record to each Raft group that is led here, with retries until it is acknowledged."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._under_way: set[bytes] = set()
        self.acked: dict[bytes, float] = {}
        self._task = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while True:
            for key, group in list(self._node.driver.groups.items()):
                if key in self.acked or key in self._under_way or group.core.role is not Role.LEADER:
                    continue
                self._under_way.add(key)
                proposed = group.propose([build_batch([NewRecord(os.urandom(VALUE_BYTES))])])
                proposed.add_done_callback(partial(self._on_commit, key))
            await asyncio.sleep(_POLL_S / 2)

    def _on_commit(self, key: bytes, proposed: "asyncio.Future[Committed]") -> None:
        """Record the time of a group's first commit."""
        self._under_way.discard(key)
        if proposed.exception() is None:
            self.acked.setdefault(key, time.monotonic())


class Commands:
    """Handlers of the commands that this process accepts."""

    _everywhere: AllGroupsWriter

    def __init__(self, syncs: SyncCount) -> None:
        self.node: Node
        self._syncs = syncs
        self._loads = 0
        self._writer: asyncio.Task[None] | None = None
        self._stalls = StallTimer()

    async def open(self, data_dir: str, number: int, port: int, peers: dict[str, list[Any]]) -> dict[str, Any]:
        """Open and start a node; return its address, its disk, and the seconds to open it."""
        settings = NodeSettings(
            data_dir=data_dir,
            node_id=number,
            host_label=f"host-{number}",
            cluster_id="bench",
            rpc_port=port,
            secret=SECRET,
            peers={int(node): (str(at[0]), int(at[1])) for node, at in peers.items()},
        )
        begin = time.perf_counter()
        self.node = await Node.open(settings)
        opened = time.perf_counter() - begin
        await self.node.start()
        return {
            "address": self.node.transport.address,
            "disk": str(self.node.identity.disk_uuid),
            "opened_s": opened,
        }

    async def set_peers(self, peers: dict[str, list[Any]]) -> None:
        self.node.set_peers({NodeId(int(node)): (str(at[0]), int(at[1])) for node, at in peers.items()}, {})

    async def create(self, members: list[list[Any]], groups: int) -> dict[str, float]:
        """Create the Raft group of the load, or `groups` other ones; return the seconds that this took."""
        voters = tuple(sorted(RollMember(int(node), uuid.UUID(disk)) for node, disk in members))
        ids = [uuid.UUID(int=1_000 + number) for number in range(groups)] or [GROUP]
        self._stalls.start()
        begin = time.perf_counter()
        await self.node.create_groups([(Roll(group, 1, 0, 0, -1, 1_000, 1, voters), None) for group in ids])
        return {"seconds": time.perf_counter() - begin}

    async def check_leader(self) -> dict[str, bool]:
        known = await self.node.wait_for_leader(GROUP, deadline_in(_LEADER_MS_MAX))
        return {"leads": known is not None and known.is_here}

    async def load(self, mode: str, in_flight: int, seconds: float, batch_bytes: int) -> dict[str, float]:
        """Append values for `seconds`, `in_flight` at a time; return the figures of the load.

        Mode "accumulated" appends the values of a turn as one batch; other modes append each value alone."""
        self._loads += 1
        load, group = Load(in_flight, seconds, self._loads, self._syncs), self._group()
        if mode == "accumulated":
            accumulator = Accumulator(group)
            return await load.run(lambda _, value: accumulator.append(value), VALUE_BYTES)
        return await load.run(lambda _, value: group.propose([build_batch([value])]), batch_bytes)

    async def verify(self) -> dict[str, int]:
        """Read all records back; return the number of records, and the number of different ones."""
        group = self._group()
        offset, records, seen = int(group.log_start_offset), 0, set()
        while offset < group.high_watermark:
            for batch in group.read(offset, READ_BYTES):
                for record in read_records(batch):
                    records += 1
                    seen.add((record.value or b"")[:KEY_BYTES])
                header = read_header(batch)
                offset = header.base_offset + header.last_offset_delta + 1
            await asyncio.sleep(0)
        return {"records": records, "different": len(seen)}

    async def write_when_leading(self) -> None:
        """Write records one after another while this node leads; report the first one of each term."""
        self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        reported_term = 0
        while True:
            known = self.node.leader_of(GROUP)
            if known is None or not known.is_here:
                await asyncio.sleep(_POLL_S / 20)
                continue
            try:
                done = await self._group().propose([build_batch([NewRecord(os.urandom(VALUE_BYTES))])])
            except RaftlogError:
                continue
            if done.term != reported_term:
                reported_term = done.term
                print_answer({"first_ack_at": time.monotonic(), "term": reported_term})

    async def write_everywhere(self) -> None:
        """Write one record to every Raft group that is led here; `list_written` reports them."""
        self._everywhere = AllGroupsWriter(self.node)

    async def list_written(self) -> dict[str, float]:
        """Return the time of the first acknowledged write since `write_everywhere`, by number of the Raft group."""
        return {str(uuid.UUID(bytes=key).int): at for key, at in self._everywhere.acked.items()}

    async def wait_until_settled(self, groups: int, quiesced: bool) -> dict[str, float]:
        """Wait until every Raft group has a leader, or until all are quiesced."""
        begin = time.perf_counter()
        cores = self._cores()
        while len(cores) < groups or any(core.leader is None or (quiesced and not core.is_quiesced) for core in cores):
            await asyncio.sleep(_POLL_S)
            cores = self._cores()
        return {"seconds": time.perf_counter() - begin, "led": sum(core.role is Role.LEADER for core in cores)}

    def _cores(self) -> list[RaftCore]:
        return [group.core for group in self.node.driver.groups.values()]

    async def costs(self) -> dict[str, float]:
        return {**process_costs(), "stall_ms": self._stalls.take_longest_s() * 1000}

    async def stop_stall_timer(self) -> None:
        """Stop the stall timer, which `create` started and which costs more than an idle node."""
        self._stalls.stop()

    async def stop(self) -> dict[str, float]:
        """Stop the node gracefully; the process continues."""
        begin = time.perf_counter()
        self._stalls.stop()
        await self.node.stop()
        return {"seconds": time.perf_counter() - begin}

    def _group(self) -> PartitionReplica:
        """Return this node's replica of the Raft group."""
        group = self.node.find_replica(GROUP)
        require(group is not None, "the group is not here")
        assert group is not None, "it was required"
        return group


if __name__ == "__main__":
    run(Commands)
