"""Creation of clusters under crashes, wiped disks, partitions and lost answers: no two clusters share a seed."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jepsen.simulation import VirtualLoop
from raftlog.errors import RaftlogError
from raftlog.partitions.controller.bootstrap_record import BootstrapFile, BootstrapMember, BootstrapRecord
from raftlog.partitions.controller.first_start import FirstStart, Phase
from raftlog.partitions.controller.settings import MetadataSettings
from raftlog.partitions.node import NodeIdentity, Request
from raftlog.runtime.rpc.calls import Answer
from raftlog.runtime.rpc.errors import ConnectionLost, HandshakeRefused, NotConnected
from raftlog.runtime.rpc.handshake import PeerIdentity, Reason
from raftlog.types import NodeId

SEEDS = 3
FAULTS = 25
QUICK_SEEDS = 15
"""Seeds of tests that are not slow."""
SETTINGS = MetadataSettings(seeds=tuple(("h", number) for number in range(1, SEEDS + 1)), look_ms=10, look_ms_max=40)


class Crash(Exception):
    """Crash of the process at this point."""


class ModelDisk:
    """State of a node that survives a crash."""

    def __init__(self, number: int, disk_uuid: uuid.UUID) -> None:
        self.number, self.disk_uuid = number, disk_uuid
        self.record: BootstrapRecord | None = None
        self.members: tuple[BootstrapMember, ...] = ()
        self.has_begun = False
        self.cluster_id: str | None = None


class Process:
    """Process from its start to its crash: a `FirstStart` on a disk, with the parts of a node that it uses."""

    def __init__(self, world: "World", disk: ModelDisk) -> None:
        self.world, self.disk, self.loop = world, disk, world.loop
        self.is_dead = False
        self.handlers: dict[str, Callable[[Request], Awaitable[Answer]]] = {}
        self.loop = world.loop
        self.environment = SimpleNamespace(random=world.random, wall_ms=lambda: 1)
        self.settings = SimpleNamespace(data_dir="/data")
        self.file = cast(BootstrapFile, ModelBootstrapFile(self))
        self.first_start = FirstStart(cast(Any, self), SETTINGS, self.file, self._phase_and_members)
        self.task = world.loop.create_task(self._run())

    @property
    def identity(self) -> NodeIdentity:
        disk = self.disk
        return NodeIdentity(disk.cluster_id, NodeId(disk.number), disk.disk_uuid, 1, True)

    def _phase_and_members(self) -> tuple[Phase, list[BootstrapMember]]:
        if not self.disk.has_begun:
            return Phase.EMPTY, []
        record = self.disk.record
        assert record is not None
        if record.has_seed(self.identity.replica) and not self.world.is_bootstrapped(record):
            return Phase.FOUNDED, []
        return Phase.MEMBER, list(record.seeds)

    async def _run(self) -> None:
        if self.disk.record is not None:
            self.disk.cluster_id = str(self.disk.record.cluster_id)
        if self.disk.has_begun:
            return
        try:
            met = await self.first_start.run(f"h:{self.disk.number}")
        except Crash:
            self.crash()
            return
        if met is not None:
            assert met.record is not None
            self.disk.record = met.record
        record = self.disk.record
        assert record is not None
        self.disk.has_begun = True
        if met is None:
            self.world.begun.setdefault(record, []).append(self.identity.replica)

    def crash(self) -> None:
        self.is_dead = True
        self.task.cancel()

    # what FirstStart wants of a node

    def on_request(self, name: str, handler: Callable[[Request], Awaitable[Answer]], *, is_open: bool = False) -> None:
        self.handlers[name] = handler

    def join_cluster(self, cluster_id: str) -> None:
        self.world.maybe_crash(self)
        assert self.disk.cluster_id in (None, cluster_id)
        self.disk.cluster_id = cluster_id

    async def probe(
        self, address: tuple[str, int], name: str, header: Any, deadline: float
    ) -> tuple[PeerIdentity, Answer]:
        return await self.world.probe(self, address[1], name, header)


class ModelBootstrapFile:
    """Bootstrap file of a disk; a crash may happen just before or after its sync."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def record(self) -> BootstrapRecord | None:
        return self._process.disk.record

    @property
    def members(self) -> tuple[BootstrapMember, ...]:
        return self._process.disk.members

    @property
    def is_lost(self) -> bool:
        return self.record is None and self._process.disk.cluster_id is not None

    def store(self, record: BootstrapRecord) -> None:
        disk = self._process.disk
        assert disk.record in (None, record)
        self._process.world.maybe_crash(self._process)
        disk.record = record
        self._process.world.maybe_crash(self._process)


class World:
    """Processes by number, which is also their address, with random faults."""

    def __init__(self, seed: int, *, wipes: bool, loses_records: bool = False) -> None:
        self.random = Random(seed)
        self.loop = VirtualLoop()
        self.wipes, self.loses_records = wipes, loses_records
        self.lost_count = 0
        self.is_calm = False
        self.processes: dict[int, Process] = {}
        self.begun: dict[BootstrapRecord, list[Any]] = {}
        self.cuts: set[frozenset[int]] = set()

    def new_disk(self, number: int) -> ModelDisk:
        return ModelDisk(number, uuid.UUID(int=self.random.getrandbits(128)))

    def is_bootstrapped(self, record: BootstrapRecord) -> bool:
        return len(self.begun.get(record, ())) * 2 > SEEDS

    def maybe_crash(self, process: Process) -> None:
        if not self.is_calm and self.random.random() < 0.15:
            process.crash()
            raise Crash

    async def probe(self, asker: Process, number: int, name: str, header: Any) -> tuple[PeerIdentity, Answer]:
        await asyncio.sleep(self.random.uniform(0, 0.02))
        there = self.processes.get(number)
        if there is None or there.is_dead or frozenset((asker.disk.number, number)) in self.cuts:
            raise NotConnected("nobody is there")
        if there is asker:
            raise HandshakeRefused("itself", reason=Reason.SELF, is_remote=True)
        ours, theirs = asker.identity, there.identity
        if None not in (ours.cluster_id, theirs.cluster_id) and ours.cluster_id != theirs.cluster_id:
            raise HandshakeRefused("another cluster", reason=Reason.CLUSTER_ID, is_remote=True)
        identity = PeerIdentity(theirs.cluster_id, theirs.node_id, theirs.disk_uuid, 1, 1, "")
        try:
            answer = await there.handlers[name](Request(ours.node_id, header, (), cast(Any, 0.0)))
        except Crash:
            raise ConnectionLost("it crashed") from None
        if not self.is_calm and self.random.random() < 0.1:
            raise ConnectionLost("the answer was lost")
        await asyncio.sleep(self.random.uniform(0, 0.02))
        return identity, answer

    def start(self, number: int, disk: ModelDisk | None = None) -> None:
        old = self.processes.get(number)
        if old is not None:
            old.crash()
        kept = old.disk if old is not None else self.new_disk(number)
        self.processes[number] = Process(self, disk or kept)

    def lose_record_if_safe(self, disk: ModelDisk) -> None:
        """Lose a disk's record if a cluster exists and this disk has no controller replica to rewrite it from."""
        if self.loses_records and disk.cluster_id is not None and not disk.has_begun and disk.record is not None:
            disk.record = None
            self.lost_count += 1

    async def inject_faults(self) -> None:
        for number in range(1, SEEDS + 1):
            await asyncio.sleep(self.random.uniform(0, 0.05))
            self.start(number)
        for _ in range(FAULTS):
            await asyncio.sleep(self.random.uniform(0, 0.1))
            number = self.random.randrange(1, SEEDS + 1)
            what = self.random.random()
            if what < 0.35:
                self.processes[number].crash()
                self.lose_record_if_safe(self.processes[number].disk)
            elif what < 0.7:
                self.start(number)
            elif what < 0.8 and self.wipes:
                self.start(number, self.new_disk(number))
            elif what < 0.9:
                self.cuts.add(frozenset((number, self.random.randrange(1, SEEDS + 1))))
            else:
                self.cuts.clear()
        self.is_calm = True
        self.cuts.clear()
        for number in range(1, SEEDS + 1):
            self.start(number)

    def run(self) -> None:
        harness = self.loop.create_task(self.inject_faults())
        assert self.loop.run_until(harness.done, within_s=60)
        harness.result()
        self.loop.run_until(lambda: all(each.disk.has_begun for each in self.processes.values()), within_s=20)
        for process in self.processes.values():
            process.crash()
        self.loop.run_until(lambda: all(process.task.done() for process in self.processes.values()), within_s=10)
        self.loop.close()


def check_disjoint(world: World) -> None:
    """Check that no two clusters share a seed, and that each cluster was created by one of its seeds."""
    owners: dict[Any, BootstrapRecord] = {}
    for record, beginners in world.begun.items():
        assert all(record.has_seed(replica) for replica in beginners)
        for seed in record.seeds:
            assert owners.setdefault(seed.replica, record) is record, f"{seed} is in two clusters"


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] if seed >= QUICK_SEEDS else []) for seed in range(60)]
)
def test_one_cluster_is_created_when_no_disk_is_lost(seed: int) -> None:
    world = World(seed, wipes=False)
    world.run()
    check_disjoint(world)
    assert len(world.begun) == 1
    assert all(process.disk.has_begun for process in world.processes.values()), "it goes on from every crash"
    assert len({process.disk.cluster_id for process in world.processes.values()}) == 1


def test_lost_disks_never_give_two_clusters_with_a_common_seed() -> None:
    founded = 0
    for seed in range(60):
        world = World(1_000 + seed, wipes=True)
        world.run()
        check_disjoint(world)
        founded += bool(world.begun)
    assert founded > 30, "a run without a cluster checks nothing"


def test_lost_records_are_fetched_again_and_never_create_another_cluster() -> None:
    lost = converged = 0
    for seed in range(30):
        world = World(2_000 + seed, wipes=False, loses_records=True)
        world.run()
        check_disjoint(world)
        assert len(world.begun) <= 1
        is_complete = all(process.disk.has_begun for process in world.processes.values())
        all_lost = all(process.disk.record is None for process in world.processes.values())
        assert is_complete or all_lost, "a record that one of the seeds holds is made again from it"
        lost, converged = lost + (world.lost_count > 0), converged + is_complete
    assert lost > 10
    assert converged > 20


def test_simulated_crashes_are_not_errors_of_the_product() -> None:
    assert issubclass(NotConnected, RaftlogError)
    assert not issubclass(Crash, RaftlogError)
