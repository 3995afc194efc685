"""Bootstrap record of a cluster, stored by each of its first brokers, and members that a later broker can ask.

    {data-dir}/.raftlog/bootstrap     the record; the members that were known when this process joined

    a directory holds at most one record, and never another one

The record alone decides whether a process may begin the controller's group: it names node ids *and* disk uuids, so a
wiped process is not a seed any more. Written once, by `first_start`; read when the process starts. A lost or damaged
one is written again from the controller's state, for processes that ask this one how to join; when this process has
no replica of the controller either, the record is fetched from a peer, and never made anew (`first_start`)."""

import logging
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from raftlog.errors import FormatError, InvalidArgument, SmallFileDamaged
from raftlog.partitions.controller.machine import Bootstrap, ControllerState
from raftlog.raft import ReplicaId
from raftlog.runtime.log.replica_directory import holds_replicas
from raftlog.runtime.log.sealed_file import read_sealed, write_sealed
from raftlog.runtime.node_identity import NodeIdentity
from raftlog.storage.directory import DAMAGED, internal_path, make_directory
from raftlog.storage.disk import Disk
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)
BOOTSTRAP: Final = "bootstrap"


class BootstrapMember(NamedTuple):
    """Broker and its RPC address, HOST:PORT; empty if it has none."""

    node_id: NodeId
    disk_uuid: UUID
    address: str

    @property
    def replica(self) -> ReplicaId:
        return ReplicaId(self.node_id, self.disk_uuid)


class BootstrapRecord(msgspec.Struct, frozen=True):
    """Bootstrap record: `seeds` ascend by node id; `addresses` is their common list of seeds in normal form."""

    cluster_id: UUID
    seeds: tuple[BootstrapMember, ...]
    addresses: tuple[str, ...]
    created_ms: int
    feature_level: int

    def has_seed(self, replica: ReplicaId) -> bool:
        """Return whether this node with this disk is one of the seeds."""
        return any(seed.replica == replica for seed in self.seeds)

    def command(self) -> Bootstrap:
        """Return the first command of the cluster."""
        return Bootstrap(
            self.cluster_id, tuple(seed.replica for seed in self.seeds), self.feature_level, self.created_ms
        )

    def pack(self) -> dict[str, Any]:
        """Return the fields as values that JSON and MessagePack can encode."""
        fields: dict[str, Any] = to_plain_lists(self)
        return fields

    @classmethod
    def unpack(cls, raw: Any) -> "BootstrapRecord":
        """Return the decoded record. Raises `FormatError` if it is malformed, or no cluster can begin with it."""
        try:
            record = msgspec.convert(raw, cls)
            record.command()
        except (msgspec.ValidationError, InvalidArgument) as error:
            raise FormatError(f"the bootstrap record cannot be used: {error}") from None
        return record


def to_plain_lists(value: BootstrapRecord | Sequence[BootstrapMember]) -> Any:
    """Convert tuples to lists, because neither JSON nor a frame has tuples."""
    return msgspec.json.decode(msgspec.json.encode(value))


def unpack_members(raw: Any) -> tuple[BootstrapMember, ...]:
    """Return the members listed in a file or an answer. Raises `FormatError`."""
    try:
        return msgspec.convert(raw, tuple[BootstrapMember, ...])
    except msgspec.ValidationError as error:
        raise FormatError(f"the list of members cannot be read: {error}") from None


def rebuild_record(state: ControllerState, addresses: tuple[str, ...]) -> BootstrapRecord | None:
    """Return the record of a founded cluster, rebuilt from its state; None before the bootstrap is known.

    Seeds that were removed have no address in it. `addresses`: the list of seeds that this process was started with."""
    founded = state.bootstrap
    if founded is None:
        return None
    there = {ReplicaId(broker.node_id, broker.disk_uuid): broker.addresses.rpc for broker in state.all_brokers()}
    seeds = tuple(BootstrapMember(*seed, there.get(seed, "")) for seed in founded.seeds)
    return BootstrapRecord(founded.cluster_id, seeds, addresses, founded.created_ms, founded.feature_level)


class BootstrapFile:
    """Bootstrap file of one directory. The methods block for their syncs and raise `OSError`."""

    def __init__(self, disk: Disk, data_dir: str) -> None:
        """Describe the file in the data directory; nothing is read yet."""
        self._disk, self._data_dir = disk, data_dir
        self._path = internal_path(data_dir, BOOTSTRAP)
        self.record: BootstrapRecord | None = None
        self.members: tuple[BootstrapMember, ...] = ()
        """Members of the cluster that this process joined; empty for a seed."""
        self.is_lost = False
        """Whether an earlier record is missing: this process may fetch a record or join, but never creates one."""

    def detect_loss(self, identity: NodeIdentity, given_cluster_id: str | None) -> None:
        """Set `is_lost` if a directory without a bootstrap record was in use: it has a cluster id, or data."""
        is_member = identity.cluster_id is not None and (
            identity.cluster_id != given_cluster_id or bool(identity.former_disks)
        )
        self.is_lost = self.record is None and (self.is_lost or is_member or holds_replicas(self._disk, self._data_dir))

    def read(self) -> None:
        """Read the file; move a damaged one to `.raftlog/damaged/`. Raises `FormatError` for another version."""
        try:
            file = read_sealed(self._disk, self._path, BOOTSTRAP)
            if file is not None:
                members = file.parse_field("members", unpack_members, "a list of members")
                try:
                    self.record, self.members = BootstrapRecord.unpack(dict(file.fields)), members
                except FormatError as error:
                    raise SmallFileDamaged(f"{self._path} is damaged: it holds {error}") from None
        except SmallFileDamaged as error:
            self.is_lost = True
            kept = internal_path(self._data_dir, DAMAGED, BOOTSTRAP)
            make_directory(self._disk, internal_path(self._data_dir, DAMAGED))
            self._disk.rename(self._path, kept)
            self._disk.sync([], [internal_path(self._data_dir), internal_path(self._data_dir, DAMAGED)])
            _logger.error(
                "%s; it is kept as %s, and made again from the controller's state or from a peer", error, kept
            )

    def store(self, record: BootstrapRecord, members: Sequence[BootstrapMember] = ()) -> None:
        """Store this record permanently; it is durable on return."""
        assert self.record in (None, record), f"holds the record of {self.record}, and is given {record}"
        fields = {**record.pack(), "members": to_plain_lists(members)}
        write_sealed(self._disk, self._path, BOOTSTRAP, fields)
        self.record, self.members, self.is_lost = record, tuple(members), False
