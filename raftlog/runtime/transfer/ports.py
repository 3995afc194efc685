"""What transfers and compaction need of the process that they run in. The driver provides all of it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from raftlog.errors import RaftlogError
from raftlog.raft import ReplicaId
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.operations import Operation
from raftlog.runtime.log.replica_directory import Trash
from raftlog.runtime.replica.group import Group
from raftlog.runtime.transport import Envelope, Transport
from raftlog.storage.disk import Disk, File
from raftlog.types import NodeId


class PeerPort(Protocol):
    """Questions to replicas in other processes."""

    me: ReplicaId
    config: DriverConfig
    loop: asyncio.AbstractEventLoop
    transport: Transport


async def ask(port: PeerPort, node: NodeId, question: object) -> object:
    """Ask another process, for `transfer_timeout_ms` at most. Raises `RaftlogError`, `OSError` or `TimeoutError`."""
    async with asyncio.timeout(port.config.transfer_timeout_ms / 1000):
        return await port.transport.request(node, question)


class AppendPort(PeerPort, Protocol):
    """Entries that were fetched are handed over like those that a leader sent."""

    def receive(self, node: NodeId, envelopes: Sequence[Envelope]) -> None:
        """Take messages of another process."""
        ...

    def why_refused(self, size_bytes: int, *, is_essential: bool = False) -> RaftlogError | None:
        """Why no entries of that size can be taken now."""
        ...


class CheckpointPort(Protocol):
    """Checkpoints, as far as they need files where they are."""

    @property
    def is_under_way(self) -> bool:
        """A checkpoint was begun and is not complete."""
        ...

    def note_changed(self, group: Group) -> None:
        """The next checkpoint has to look at the group."""
        ...


class DurabilityPort(Protocol):
    """The journal and the syncs of files."""

    trash: Trash

    @property
    def checkpoints(self) -> CheckpointPort:
        """Those of the journal."""
        ...

    async def append_durably(self, operations: Sequence[Operation]) -> None:
        """Journal operations and wait until they are durable; raises what ended the journal."""
        ...

    async def sync(self, files: Sequence[File], directories: Sequence[str]) -> None:
        """Sync and wait; a failure ends the process, and is raised."""
        ...

    def stop_with(self, error: Exception) -> None:
        """Something failed half way, and only a new start can go on."""
        ...

    def settle_cut(self, group: Group) -> None:
        """Let a cut that is durable reach the files, if it had to wait."""
        ...

    def may_move(self, group: Group) -> bool:
        """Whether nothing needs the group's files where they are."""
        ...

    def write(self, group: Group) -> None:
        """Bring what the journal has of the group to its files now, as far as there is room."""
        ...


class LogPort(PeerPort, Protocol):
    """Files of a group's log are written, or replaced by others."""

    disk: Disk
    data_dir: str
    failure: RaftlogError | None
    wall_ms: Callable[[], int]
    entries_repaired: int

    @property
    def persister(self) -> DurabilityPort:
        """What makes it durable."""
        ...

    def compact(self, group: Group) -> None:
        """Compact what lies below the group's mark, by and by."""
        ...

    def leave_compaction(self, group: Group) -> None:
        """End a compaction of the group's log: another one takes its place."""
        ...

    def mark_dirty(self, group: Group) -> None:
        """There is something to do for the group in the next turn."""
        ...

    def note_members(self, group: Group) -> None:
        """The group may be shared with other nodes than before."""
        ...


class TransferPort(AppendPort, LogPort, Protocol):
    """All of these."""
