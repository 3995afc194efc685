"""Rules and effects of commands about brokers.

Every function checks first and changes last: it raises a `RaftlogError` with nothing changed, or it changes
everything and returns the result. Called by `ControllerState.apply` only."""

from dataclasses import replace

from raftlog.errors import (
    ChangeRefused,
    FormatError,
    IdentityRefused,
    InvalidArgument,
    UnknownBroker,
)
from raftlog.partitions.controller.machine.cluster import ClusterState
from raftlog.partitions.controller.machine.commands import (
    AllocateProducerIds,
    Bootstrap,
    RegisterBroker,
    RemoveBroker,
    SetFeatureLevel,
    UpdateBroker,
)
from raftlog.partitions.controller.machine.errors import check_version
from raftlog.partitions.controller.machine.rows import RegisteredBroker
from raftlog.partitions.controller.machine.schema import NUMBER_MAX
from raftlog.raft import ReplicaId
from raftlog.types import FEATURE_LEVEL_KNOWN, Index


def bootstrap(cluster: ClusterState, command: Bootstrap, index: Index) -> int:
    """Found the cluster: set its id and seeds; return `index`. An identical repetition changes nothing."""
    if cluster.bootstrap is not None and cluster.bootstrap != command:
        raise InvalidArgument(
            f"the cluster {cluster.bootstrap.cluster_id} exists already; it cannot become {command.cluster_id}"
        )
    if cluster.bootstrap is None:
        _check_level_is_supported(command.feature_level)
        cluster.bootstrap, cluster.feature_level = command, command.feature_level
    return index


def register(cluster: ClusterState, command: RegisterBroker, index: Index) -> int:
    """Register a started broker; return its version.

    A disk that replaces another one gets the replicas of the other. They are empty, and the leaders of their Raft
    groups fill them."""
    _check_disk(cluster, command)
    _check_node_id(cluster, command)
    _check_levels(cluster, command)
    before = cluster.brokers.get(command.node_id)
    known = before if before is not None and before.disk_uuid == command.disk_uuid else None
    after = _make_row(command, before, index)
    if known is not None:
        _check_epoch(known, after)
        if replace(after, version=known.version) == known:
            return known.version
    owner = cluster.disk_of(command.node_id)
    cluster.brokers.put(after)
    if owner not in (None, command.disk_uuid):
        assert owner is not None
        cluster.retire(owner, command.node_id, index)
        cluster.replace_replica(ReplicaId(command.node_id, owner), after.replica, index)
    return index


def _make_row(command: RegisterBroker, before: RegisteredBroker | None, index: Index) -> RegisteredBroker:
    """Return the row after a registration; a draining broker stays draining unless the command sets it."""
    was_draining = before is not None and before.is_draining
    return RegisteredBroker(
        command.node_id,
        command.disk_uuid,
        command.boot_epoch,
        command.host,
        command.addresses,
        command.feature_level_min,
        command.feature_level_max,
        was_draining if command.is_draining is None else command.is_draining,
        index,
    )


def _check_disk(cluster: ClusterState, command: RegisterBroker) -> None:
    """Raise `IdentityRefused` unless the disk belongs to this node id only and is not retired."""
    retired = cluster.retired.get(command.disk_uuid)
    if retired is not None:
        raise IdentityRefused(
            f"the disk {command.disk_uuid} of node {retired.node_id} was removed from the cluster or replaced: "
            "start this process with an empty data directory"
        )
    seeds = cluster.bootstrap.seeds if cluster.bootstrap else ()
    holders = [broker.node_id for broker in cluster.brokers if broker.disk_uuid == command.disk_uuid]
    holders += [seed.node_id for seed in seeds if seed.disk_uuid == command.disk_uuid]
    for node_id in sorted(set(holders)):
        if node_id != command.node_id:
            raise IdentityRefused(
                f"the disk {command.disk_uuid} is that of node {node_id}, and node {command.node_id} comes with it: "
                "it is a copy; start this process with an empty data directory"
            )


def _check_node_id(cluster: ClusterState, command: RegisterBroker) -> None:
    """Raise `IdentityRefused` unless the node id has no other disk, or the command names it as replaced."""
    owner = cluster.disk_of(command.node_id)
    if owner not in (None, command.disk_uuid, command.replaces):
        raise IdentityRefused(
            f"node id {command.node_id} belongs to the disk {owner}, and the disk {command.disk_uuid} comes with it: "
            "use another node id; if the old disk is gone for good, remove it or say that it is replaced"
        )
    if command.replaces in (None, owner):
        return
    assert command.replaces is not None
    retired = cluster.retired.get(command.replaces)
    if retired is None or retired.node_id != command.node_id:
        raise IdentityRefused(f"node {command.node_id} never had the disk {command.replaces}: it cannot be replaced")


def _check_levels(cluster: ClusterState, command: RegisterBroker) -> None:
    """Raise `InvalidArgument` unless the broker supports the cluster's feature level."""
    if not command.feature_level_min <= cluster.feature_level <= command.feature_level_max:
        raise InvalidArgument(
            f"the cluster runs at feature level {cluster.feature_level}, and node {command.node_id} knows "
            f"{command.feature_level_min} to {command.feature_level_max}: run a release that knows it"
        )


def _check_epoch(known: RegisteredBroker, after: RegisteredBroker) -> None:
    """Raise `IdentityRefused` for an old copy of a disk, or for two processes with copies of one disk."""
    if after.boot_epoch < known.boot_epoch:
        raise IdentityRefused(
            f"the disk {after.disk_uuid} of node {after.node_id} comes with boot epoch {after.boot_epoch}, and "
            f"{known.boot_epoch} was registered before: it is an old copy; start it on the newer disk or an empty one"
        )
    same = replace(after, is_draining=known.is_draining, version=known.version)
    if not known.addresses.kafka:  # a running broker adds them when the feature level allows it
        same = replace(same, addresses=replace(same.addresses, kafka=()))
    if after.boot_epoch == known.boot_epoch and same != known:
        raise IdentityRefused(
            f"the disk {after.disk_uuid} of node {after.node_id} was registered with boot epoch {known.boot_epoch} "
            "from another host, with other addresses or levels: two processes use copies of one disk; stop one of them"
        )


def update(cluster: ClusterState, command: UpdateBroker, index: Index) -> int:
    """Set whether a broker is draining; return its version."""
    broker = cluster.require_broker(command.node_id, command.disk_uuid)
    check_version(f"broker {command.node_id}", broker.version, command.expected_version)
    if broker.is_draining == command.is_draining:
        return broker.version
    cluster.brokers.put(replace(broker, is_draining=command.is_draining, version=index))
    return index


def remove(cluster: ClusterState, command: RemoveBroker, index: Index) -> int:
    """Remove the broker or absent seed, and retire its disk; return `index`.

    A registered broker has to be draining: an operator may have ordered meanwhile that it stays, though it is empty."""
    if cluster.disk_of(command.node_id) != command.disk_uuid:
        raise UnknownBroker(f"there is no broker {command.node_id} with the disk {command.disk_uuid}")
    count = cluster.load(ReplicaId(command.node_id, command.disk_uuid)).replicas
    if count:
        raise ChangeRefused(f"broker {command.node_id} still has {count} replicas: move them to others first")
    broker = cluster.brokers.get(command.node_id)
    if broker is not None and not broker.is_draining:
        raise ChangeRefused(f"broker {command.node_id} is not draining: decommission it first")
    cluster.retire(command.disk_uuid, command.node_id, index)
    if command.node_id in cluster.maintenance:
        cluster.maintenance.remove(command.node_id)
    return index


def allocate_producer_ids(cluster: ClusterState, command: AllocateProducerIds, index: Index) -> int:
    """Allocate a block of producer ids; return the first one."""
    broker = cluster.require_broker(command.node_id, command.disk_uuid)
    if broker.boot_epoch != command.boot_epoch:
        raise IdentityRefused(
            f"broker {command.node_id} runs with boot epoch {broker.boot_epoch}, not {command.boot_epoch}: "
            "a process that was started before asks for producer ids"
        )
    first = cluster.next_producer_id
    if command.count > NUMBER_MAX - first:
        raise InvalidArgument(f"{command.count} producer ids are not left; the next one is {first}")
    cluster.next_producer_id = first + command.count
    return first


def set_feature_level(cluster: ClusterState, command: SetFeatureLevel, index: Index) -> int:
    """Raise the cluster's feature level if every broker supports the new one; return `index`."""
    if command.level < cluster.feature_level:
        raise InvalidArgument(f"the feature level is {cluster.feature_level}; it cannot fall to {command.level}")
    if command.level == cluster.feature_level:
        return index
    _check_all_support(cluster, command.level)
    _check_level_is_supported(command.level)
    cluster.feature_level = command.level
    return index


def _check_all_support(cluster: ClusterState, level: int) -> None:
    """Raise `InvalidArgument` or `ChangeRefused` unless all brokers and seeds support the level."""
    unfit = [broker.node_id for broker in cluster.all_brokers() if not _supports(broker, level)]
    if unfit:
        raise InvalidArgument(f"feature level {level} is not known to the brokers {unfit}: upgrade them first")
    absent = [seed.node_id for seed in cluster.absent_seeds()]
    if absent:
        raise ChangeRefused(f"the brokers {absent} have not registered: start them, or remove them")


def _supports(broker: RegisteredBroker, level: int) -> bool:
    """Return whether the broker supports the feature level."""
    return broker.feature_level_min <= level <= broker.feature_level_max


def _check_level_is_supported(level: int) -> None:
    """Raise `FormatError` for a level above this release, which stops the replica; the proposer gets no answer."""
    if level > FEATURE_LEVEL_KNOWN:
        raise FormatError(
            f"the cluster goes to feature level {level}; this program knows {FEATURE_LEVEL_KNOWN}: run a newer release"
        )
