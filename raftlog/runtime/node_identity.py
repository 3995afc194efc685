"""Identity of the process of a data directory, in the file `.raftlog/identity`; docs/FORMATS.md, section 10.

Written by `partitions.node.identity` at every start, before anything is sent; read there, and by tools that open
the files of processes which do not run."""

import uuid
from typing import Final, NamedTuple

from raftlog.raft import ReplicaId
from raftlog.runtime.log.sealed_file import read_sealed
from raftlog.storage.directory import internal_path
from raftlog.storage.disk import Disk
from raftlog.storage.json_file import JsonFile, parse_uuid
from raftlog.types import NodeId

IDENTITY: Final = "identity"
JOURNAL: Final = "journal"


class NodeIdentity(NamedTuple):
    """Content of the identity file.

    `has_journal`: this disk uuid has one, so a missing journal is damage. `refusal`: answer of a cluster that refused
    this disk as a stale, copied or retired one; it is never used again. `former_disks`: earlier disk uuids of this
    directory, oldest first: this disk may replace one of them, and no other disk. `was_refused`: the directory has a
    new disk uuid because the cluster refused the former one, which may be in use elsewhere."""

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
        """Id of this process's replicas in their Raft groups."""
        return ReplicaId(self.node_id, self.disk_uuid)


def read_identity(disk: Disk, path: str) -> NodeIdentity | None:
    """Read the identity of a data directory; `None` without such a file. Raises `FormatError` with its name."""
    file = read_sealed(disk, internal_path(path, IDENTITY), IDENTITY)
    return None if file is None else _identity_of(file)


def _identity_of(file: JsonFile) -> NodeIdentity:
    """Return the identity in the fields of a file. Raises `SmallFileDamaged`."""
    return NodeIdentity(
        file.text_or_none("cluster_id"),
        NodeId(file.number("node_id")),
        file.uuid("disk_uuid"),
        file.number("boot_epoch", at_least=1),
        file.flag("has_journal"),
        file.text_or_none("refusal", None),
        file.parse_field("former_disks", lambda former: tuple(map(parse_uuid, former)), "a list of uuids", ()),
        file.flag("was_refused", False),
    )
