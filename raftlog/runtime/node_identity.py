"""Who the process of a data directory is, as the file `.raftlog/identity` says; docs/FORMATS.md, section 10.

Written by `partitions.multiraft.identity` at every start, before anything is sent; read there, and by tools that open
the files of processes which do not run.
"""

import uuid
from typing import Any, Final, NamedTuple

from raftlog.raft import ReplicaId
from raftlog.runtime.sealed_file import read_sealed
from raftlog.storage.directory import internal
from raftlog.storage.disk import Disk
from raftlog.types import NodeId

IDENTITY: Final = "identity"
JOURNAL: Final = "journal"


class NodeIdentity(NamedTuple):
    """As it stands in the file. `has_journal`: this disk uuid has one, so a missing one is damage. `refusal`: what the
    cluster said when it refused this disk as a stale, copied or retired one; it is never used again. `former_disks`:
    what this directory was before, oldest first: it may take the place of one of them, and of no other disk.
    `was_refused`: it is another disk now because the cluster refused it; what it was may be in use elsewhere."""

    cluster_id: str | None
    node_id: NodeId
    disk_uuid: uuid.UUID
    boot_epoch: int
    has_journal: bool
    refusal: str | None = None
    former_disks: tuple[uuid.UUID, ...] = ()
    was_refused: bool = False

    @property
    def replica(self) -> ReplicaId:
        """What the groups of this process know it by."""
        return ReplicaId(self.node_id, self.disk_uuid)


def read_identity(disk: Disk, path: str) -> NodeIdentity | None:
    """Whose data directory this is, for tools that change nothing; `None` when it is nobody's. Raises `FormatError`."""
    fields = read_sealed(disk, internal(path, IDENTITY), IDENTITY)
    return None if fields is None else identity_of(fields)


def identity_of(fields: dict[str, Any]) -> NodeIdentity:
    """The identity in the fields of its file."""
    former = tuple(map(uuid.UUID, fields.get("former_disks", ())))
    return NodeIdentity(**{**fields, "disk_uuid": uuid.UUID(fields["disk_uuid"]), "former_disks": former})
