"""New replicas: one at a time, or many together while the loop goes on, with two syncs for all of a batch.

    directories and staged meta files → synced → meta files placed, first rolls → synced → marks journaled, groups begin

Work is cut into slices of a few groups, so that no turn of the loop takes long. A crash before the marks are durable
leaves directories that hold at most a first roll, which are made again. Nothing of a batch that failed counts.

    a group with the mark `removed` is never made from its first roll: its members may be ahead of this disk"""

import asyncio
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from raftlog.errors import InvalidArgument, RaftlogError, Unavailable
from raftlog.raft import Restart
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.operations import Created, GroupKey
from raftlog.runtime.log.creation import DirectoryCreation
from raftlog.runtime.log.group_log import GroupLog
from raftlog.runtime.process.persister import Persister
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.disk import Disk
from raftlog.storage.roll import Roll
from raftlog.storage.segmented_log import SyncTargets
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS, make_refusal
from raftlog.types import Offset

_BATCH: Final = 256
"""Number of groups that share their syncs."""
_SLICE: Final = 8
"""Number of groups that start in one turn of the loop."""
_FILES_SLICE: Final = 2
"""Number of groups whose files are made in one turn: new inodes take from a tenth of a millisecond to more than one."""

Creation = tuple[Roll, str | None]
"""First roll of a group, the same everywhere, and the name of its directory if it is not the group's id."""
Joining = tuple[uuid.UUID, str | None]
"""Id of a group whose replica here begins empty, and the name of its directory, as in `Creation`."""
_Wanted = tuple[uuid.UUID, Roll | None, str | None]


class CreationPort(Protocol):
    """Interface of the creation of replicas to the process, provided by the driver."""

    disk: Disk
    data_dir: str
    config: DriverConfig
    persister: Persister
    failure: RaftlogError | None
    groups: dict[GroupKey, PartitionReplica]

    def add(self, group_id: uuid.UUID, path: str, log: GroupLog, restart: Restart) -> PartitionReplica:
        """Start and return the replica of a group whose directory is durable."""
        ...


class Creations:
    """Creations of replicas by one driver."""

    def __init__(self, port: CreationPort) -> None:
        self._port = port
        self._under_way: dict[GroupKey, None] = {}

    def make(self, group_id: uuid.UUID, roll: Roll | None, name: str | None) -> PartitionReplica:
        """Create one replica; blocking. Raises like `Driver.create_group`."""
        port = self._port
        path = f"{port.data_dir}/{name or group_id}"
        self._check(path, group_id, roll)
        making = DirectoryCreation(port.disk, port.data_dir, path, group_id, roll)
        with self._refuse_when_full(path):
            log, restart = making.run(port.config.recent_bytes_max)
        return self._begin([(making, log, restart)])[0]

    def is_under_way(self, key: GroupKey) -> bool:
        """Return whether a replica of the group is being created."""
        return key in self._under_way

    def _check(self, path: str, group_id: uuid.UUID, roll: Roll | None) -> None:
        """Raise `InvalidArgument` or `Unavailable` unless a replica of this group can be created now."""
        if group_id.bytes in self._port.groups or group_id.bytes in self._under_way:
            raise InvalidArgument(f"{path}: this process has a replica of group {group_id} already")
        if self._port.persister.is_leaving(group_id.bytes):
            raise Unavailable(f"{path}: a replica of group {group_id} is still being removed; try again")
        if roll is not None and self._port.persister.checkpoints.was_removed(group_id.bytes):
            raise Unavailable(f"{path}: this disk gave the group {group_id} up, and can only be filled by its leader")

    @contextmanager
    def _refuse_when_full(self, path: str) -> Iterator[None]:
        """Turn a full disk or missing file descriptors into a refusal; other errors end the process.

        The next attempt deletes the files that a failed one left."""
        try:
            yield
        except OSError as error:
            if error.errno in TEMPORARY_ERRORS:
                raise make_refusal(path, error, "add space, and try again") from None
            self._port.persister.stop_with(error)
            raise self._port.failure or error from None

    def _begin(self, created: Sequence[tuple[DirectoryCreation, GroupLog, Restart]]) -> list[PartitionReplica]:
        """Journal that replicas with durable directories are created, and start these replicas."""
        persister = self._port.persister
        persister.append_marks([Created(making.group_id.bytes, Offset(0), log.end()) for making, log, _ in created])
        groups = []
        for making, log, restart in created:
            hard_state, position = persister.checkpoints.forget_removed(making.group_id.bytes)
            again = restart._replace(hard_state=hard_state, voting_position=position)
            group = self._port.add(making.group_id, making.path, log, again)
            group.has_voting_position = position is not None
            groups.append(group)
        return groups

    async def create(self, creations: Sequence[Creation]) -> None:
        """Create all replicas, batch by batch. Raises like `Driver.create_group`; earlier batches stay."""
        await self._make_all([(roll.group_id, roll, name) for roll, name in creations])

    async def join(self, joining: Sequence[Joining]) -> None:
        """Create replicas with empty logs, which the groups' leaders will fill; batch by batch like `create`."""
        await self._make_all([(group_id, None, name) for group_id, name in joining])

    async def _make_all(self, wanted: Sequence[_Wanted]) -> None:
        """Create replicas, batch by batch."""
        for at in range(0, len(wanted), _BATCH):
            await self._make_batch(wanted[at : at + _BATCH])

    async def _make_batch(self, batch: Sequence[_Wanted]) -> None:
        """Create the replicas of one batch; after an error those without a mark are abandoned."""
        makings: list[DirectoryCreation] = []
        begun = 0
        try:
            for each in batch:
                makings.append(self._prepare_creation(*each))
            await self._stage(makings, DirectoryCreation.begin)
            await self._stage(makings, DirectoryCreation.write_roll)
            while begun < len(makings):
                some = makings[begun : begun + _SLICE]
                self._begin([(making, *making.finish(self._port.config.recent_bytes_max)) for making in some])
                begun += _SLICE
                await self._yield_loop()
        finally:
            for making in makings[begun:]:
                making.abandon()
            for making in makings:
                self._under_way.pop(making.group_id.bytes, None)

    def _prepare_creation(self, group_id: uuid.UUID, roll: Roll | None, name: str | None) -> DirectoryCreation:
        """Check that the replica can be created, and reserve its group until the batch has ended."""
        port = self._port
        path = f"{port.data_dir}/{name or group_id}"
        self._check(path, group_id, roll)
        self._under_way[group_id.bytes] = None
        return DirectoryCreation(port.disk, port.data_dir, path, group_id, roll)

    async def _stage(
        self, creations: Sequence[DirectoryCreation], work: Callable[[DirectoryCreation], SyncTargets]
    ) -> None:
        """Run one stage for all replicas, and sync the files that it touched."""
        port = self._port
        targets = SyncTargets([], [])
        for number, making in enumerate(creations, 1):
            with self._refuse_when_full(making.path):
                files, directories = work(making)
            targets.files.extend(files)
            targets.directories.extend(directories)
            if number % _FILES_SLICE == 0:
                await self._yield_loop()
        try:
            await port.persister.sync(targets.files, list(dict.fromkeys(targets.directories)))
        except OSError as error:
            raise port.failure or error from None
        self._check_process()

    async def _yield_loop(self) -> None:
        """Let other callbacks of the loop run; raise the error that ended the process meanwhile."""
        await asyncio.sleep(0)
        self._check_process()

    def _check_process(self) -> None:
        """Raise the error that ended the process, if any."""
        if self._port.failure is not None:
            raise self._port.failure
