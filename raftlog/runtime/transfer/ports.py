"""Interfaces of the process for transfers and compaction. The driver provides all of them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from raftlog.errors import RaftlogError
from raftlog.raft import ReplicaId
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.operations import Operation
from raftlog.runtime.log.replica_directory import Trash
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transport import Envelope, Transport
from raftlog.storage.disk import Disk, File
from raftlog.types import NodeId


class PeerPort(Protocol):
    """Requests to replicas in other processes."""

    me: ReplicaId
    config: DriverConfig
    loop: asyncio.AbstractEventLoop
    transport: Transport


async def send_request(port: PeerPort, node: NodeId, request: object) -> object:
    """Send a request to another process; return its answer within `transfer_timeout_ms`.

    Raises `RaftlogError`, `OSError` or `TimeoutError`."""
    async with asyncio.timeout(port.config.transfer_timeout_ms / 1000):
        return await port.transport.request(node, request)


class AppendPort(PeerPort, Protocol):
    """Receiver of fetched entries, which it handles like entries that a leader sent."""

    def receive(self, node: NodeId, envelopes: Sequence[Envelope]) -> None:
        """Handle messages of another process."""
        ...

    def append_error(self, size_bytes: int, *, is_essential: bool = False) -> RaftlogError | None:
        """Return the error with which an append of that size would fail now, else None."""
        ...


class CheckpointPort(Protocol):
    """Checkpoints of the journal, during which files must stay in place."""

    @property
    def is_under_way(self) -> bool:
        """Whether a checkpoint was begun and is not complete."""
        ...

    def note_changed(self, group: PartitionReplica) -> None:
        """Include the group in the next checkpoint."""
        ...


class DurabilityPort(Protocol):
    """Journal and syncs of files."""

    trash: Trash

    @property
    def checkpoints(self) -> CheckpointPort:
        """Checkpoints of the journal."""
        ...

    async def append_durably(self, operations: Sequence[Operation]) -> None:
        """Journal operations and wait until they are durable; raise the error that ended the journal."""
        ...

    async def sync(self, files: Sequence[File], directories: Sequence[str]) -> None:
        """Sync and wait; a failure ends the process, and is raised."""
        ...

    def stop_with(self, error: Exception) -> None:
        """Stop the process after a failure in the middle of a change, from which only a restart can recover."""
        ...

    def settle_cut(self, group: PartitionReplica) -> None:
        """Apply a durable cut to the files, if it had to wait."""
        ...

    def may_move(self, group: PartitionReplica) -> bool:
        """Return whether the group's files may move, because no sync needs them in place."""
        ...

    def write(self, group: PartitionReplica) -> None:
        """Write the group's journaled entries to its files now, as far as there is room."""
        ...


class LogPort(PeerPort, Protocol):
    """Functions of the process for a transfer that replaces a group's log files."""

    disk: Disk
    data_dir: str
    failure: RaftlogError | None
    wall_ms: Callable[[], int]
    entries_repaired: int

    @property
    def persister(self) -> DurabilityPort:
        """Persister of the process."""
        ...

    def compact(self, group: PartitionReplica) -> None:
        """Compact the log below the group's mark, in the background."""
        ...

    def stop_compaction(self, group: PartitionReplica) -> None:
        """Stop a compaction of the group's log, because the log will be replaced."""
        ...

    def mark_dirty(self, group: PartitionReplica) -> None:
        """Schedule the group for the next turn."""
        ...

    def note_members(self, group: PartitionReplica) -> None:
        """Update the nodes that have a replica of the group, because its configuration may have changed."""
        ...

    def note_changed(self, group: PartitionReplica) -> None:
        """Record that the group's state changes: the next checkpoint has to include it."""
        ...


class TransferPort(AppendPort, LogPort, Protocol):
    """All interfaces for transfers."""
