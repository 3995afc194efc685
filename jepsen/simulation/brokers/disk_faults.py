"""Faults of brokers' disks: damaged and unreadable files, lost and outdated disks, and stalls.

    damage       a bit of a segment or of its index rows flips, or a page of it is zeroed; of the controller as well
    read error   a page of such a file cannot be read for a while, or until it is written again
    small file   a time index, the meta file of a directory, the stored peers of a broker; nothing is lost with it.
                 A bit of it flips; with `BrokerOptions.lost_files` it may also be cut in half, emptied or removed
    stalled      every sync takes up to some seconds
    journal      a bit of the journal flips while the process is down
    wiped        the disk is replaced by an empty one
    stale        the disk is reset to its content of two starts ago, or earlier

Damage stays within the fault model (`fault_budget`). The process may run meanwhile, or start on the
damaged disk. Extended by `faults`.
"""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from jepsen.simulation.brokers.cluster import BrokerCluster, Machine
from jepsen.simulation.brokers.fault_budget import Damage, FaultBudget
from jepsen.simulation.brokers.machine import DATA_DIR
from jepsen.simulation.brokers.small_files import damage_small_file, flip_bit
from jepsen.simulation.disk.simulated_faults import PAGE_BYTES
from jepsen.simulation.nemesis.file_damage import DiskDamage, damage_file, damage_journal
from jepsen.simulation.nemesis.machine_faults import FAULT_S, MachineFaults
from jepsen.simulation.network.links import SECOND_NS
from jepsen.simulation.options import Fault
from jepsen.simulation.timed_disk import Image, TimedDisk
from raftlog.partitions.node.remembered_peers import PEERS
from raftlog.raft import ReplicaId
from raftlog.runtime.log.sealed_file import read_sealed
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import NodeId

STALLED_NS: Final = (SECOND_NS // 2, 3 * SECOND_NS)
DISPOSABLE: Final = (".timeindex", "/.raftlog/meta", "/.raftlog/peers")


class UnreadablePage(NamedTuple):
    """Page that the disk fails to read."""

    path: str
    position: int

    def __str__(self) -> str:
        return f"{self.path} cannot be read at {self.position}"

    def is_in(self, disk: TimedDisk) -> bool:
        """Return whether the file exists and the page still cannot be read."""
        return disk.exists(self.path) and disk.is_unreadable(self.path, self.position)


class _OldCopy(NamedTuple):
    """Copy of a disk, with the boot epoch that it had."""

    replica: ReplicaId
    boot_epoch: int
    image: Image


class DiskFaults(MachineFaults[Machine]):
    """Injector of disk faults of one run."""

    def __init__(self, cluster: BrokerCluster, random: Random) -> None:
        super().__init__(cluster.loop, cluster.network, cluster.machines, random)
        self.cluster = cluster
        self.fault_budget = FaultBudget(cluster)
        self.kinds |= {
            Fault.DAMAGE: lambda: self._damage_segment(self._damage_file),
            Fault.READ_ERROR: lambda: self._damage_segment(self._make_unreadable),
            Fault.SMALL_FILE: self._damage_small_file,
            Fault.STALLED_DISK: self._stall_disks,
            Fault.JOURNAL: self._damage_journal,
            Fault.WIPE: self._wipe,
            Fault.STALE: self._advance_stale_disk,
        }
        self._lost_random = cluster.random("lost files")
        """Random numbers for lost files alone, so that runs without lost files draw the same as before."""
        self.copies: dict[NodeId, _OldCopy] = {}
        """Copies of disks, restored once all other brokers hold a later boot epoch."""

    def _damage_segment(self, damage: Callable[[Machine, PartitionReplica], DiskDamage | None]) -> None:
        """Damage a replica of a random broker with the function `damage`, if the fault budget allows it."""
        machine = self.random_machine()
        broker = machine.service
        if broker is None:
            return
        groups = [
            group
            for key, group in sorted(broker.node.driver.groups.items())
            if self.fault_budget.may_damage(machine, key)
        ]
        if not groups or machine.replica is None:
            return
        group = self.random.choice(groups)
        damaged = damage(machine, group)
        if damaged is not None:
            self.fault_budget.damages.append(Damage(machine, machine.replica, group.key, damaged))
            if self.random.random() < 0.5:
                machine.crash()

    def _damage_file(self, machine: Machine, group: PartitionReplica) -> DiskDamage | None:
        """Flip a bit or zero a page in a segment file of the replica; return the damage, or None without a file."""
        return damage_file(machine.disk, lambda path: is_segment_file(group, path), self.random, machine.note)

    def _make_unreadable(self, machine: Machine, group: PartitionReplica) -> DiskDamage | None:
        """Make a random page of the replica's segment files unreadable for a while; return the damage, or None."""
        files = [
            (path, content)
            for path, content in machine.disk.snapshot().items()
            if is_segment_file(group, path) and content
        ]
        if not files:
            return None
        path, content = self.random.choice(files)
        position = self.random.randrange(len(content)) // PAGE_BYTES * PAGE_BYTES
        machine.disk.fail_read(path, position)
        machine.note(f"{path}: the page at {position} cannot be read")
        self.undo_later(FAULT_S, machine.disk.recover)
        return UnreadablePage(path, position)

    # whole disks

    def _damage_journal(self) -> None:
        """Crash a random machine and flip a bit in its journal, if the fault budget allows the loss."""
        machine = self.random_machine()
        replica = machine.replica
        if replica is not None and self.fault_budget.may_lose(machine):
            machine.crash()
            if damage_journal(machine.disk, replica.disk_uuid, self.random, machine.note):
                machine.replica = None  # the next start shows whether the broker detected the damage

    def _wipe(self) -> None:
        """Replace the disk of a random machine by an empty one, if the fault budget allows the loss."""
        machine = self.random_machine()
        if self.fault_budget.may_lose(machine):
            machine.crash()
            machine.wipe()
            self.copies.pop(machine.node_id, None)
            self.keep_down(machine)

    def _advance_stale_disk(self) -> None:
        """Advance a stale-disk fault by one step.

        Copy a disk; restart its machine, so that the copy becomes outdated; or restore a copy whose age all others
        have recorded."""
        for node_id, copy in self.copies.items():
            machine = self.machines[node_id]
            if machine.service is None:
                continue
            if not self._is_known_to_be_old(copy):
                machine.crash()
            elif self.fault_budget.may_lose(machine):
                self._restore_copy(machine, copy)
            return
        machine = self.random_machine()
        if machine.service is not None and machine.replica is not None and machine.node_id not in self.copies:
            boot_epoch = machine.service.node.identity.boot_epoch
            machine.crash()
            self.copies[machine.node_id] = _OldCopy(machine.replica, boot_epoch, machine.disk.image())
            machine.note("its disk is copied")

    def _is_known_to_be_old(self, copy: "_OldCopy") -> bool:
        """Return whether all other disks hold a later boot epoch than the copy's next start would have."""
        others = [
            machine
            for machine in self.cluster.members()
            if machine.node_id != copy.replica.node_id and machine.node.starts
        ]
        return all(_remembered_epoch(machine.disk, copy.replica) > copy.boot_epoch + 1 for machine in others)

    def _restore_copy(self, machine: Machine, copy: "_OldCopy") -> None:
        """Crash the machine and restore its disk from the copy, unless it has another disk by now."""
        del self.copies[machine.node_id]
        if machine.replica == copy.replica:
            machine.crash()
            machine.disk.restore_image(copy.image)
            machine.replica, machine.stale = None, copy.replica
            machine.note("its disk is put back to an old copy")

    # small ones

    def _damage_small_file(self) -> None:
        """Damage or lose a small file.

        With stale disks, the file of remembered boot epochs is spared: it identifies the stale disk."""
        machine = self.random_machine()
        suffixes = DISPOSABLE[:2] if Fault.STALE in self.cluster.options.faults else DISPOSABLE
        files = [
            (path, content) for path, content in machine.disk.snapshot().items() if path.endswith(suffixes) and content
        ]
        if files and self.cluster.options.lost_files:
            machine.crash()
            damage_small_file(machine, *self._lost_random.choice(files), self._lost_random)
        elif files:
            flip_bit(machine, *self.random.choice(files), self.random)
            if machine.node.is_up and self.random.random() < 0.5:
                machine.crash()

    def _stall_disks(self) -> None:
        """Delay each sync of some disks by up to 3 s, for a while."""
        delay_ns = self.random.randint(*STALLED_NS)
        self.slow_disks(lambda disk: disk.stall(delay_ns))


def _remembered_epoch(disk: TimedDisk, replica: ReplicaId) -> int:
    """Return the latest boot epoch of the replica's disk, from this disk's file of peers; 0 without one."""
    file = read_sealed(disk, f"{DATA_DIR}/.raftlog/{PEERS}", PEERS)
    rows = [] if file is None else file.items("disks")
    known = [entry for entry in rows if entry[0] == str(replica.disk_uuid)]
    return int(known[0][2]) if known else 0


def is_segment_file(group: PartitionReplica, path: str) -> bool:
    """Return whether a file lies directly in the Raft group's directory, as segment files do."""
    return path.rpartition("/")[0] == group.path
