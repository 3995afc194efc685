"""Replicated state machine of the controller: brokers, topics, configurations, assignments, producer ids.

Pure: no asyncio, sockets, files, clocks or global random. The host proposes `encode_request(…)` as the one record of
a batch, applies committed entries with `ControllerState.apply`, and writes and reads snapshots of the state; all
other components read the state. docs/CONTROLLER.md has the commands, the rules and the bytes."""

from raftlog.partitions.controller.machine.cluster import ClusterState, ReplicaLoad
from raftlog.partitions.controller.machine.commands import (
    AddPartitions,
    Addresses,
    AllocateProducerIds,
    AlterClusterConfig,
    AlterTopicConfigs,
    Bootstrap,
    Command,
    CreateTopic,
    DeleteTopic,
    RegisterBroker,
    RemoveBroker,
    SetAssignment,
    SetFeatureLevel,
    SetMaintenance,
    UpdateBroker,
    check_configs,
)
from raftlog.partitions.controller.machine.naming import GroupName, controller_group_id
from raftlog.partitions.controller.machine.placement import PlacementCandidate, place_replicas
from raftlog.partitions.controller.machine.request import (
    CommandRequest,
    check_level,
    decode_request,
    encode_request,
)
from raftlog.partitions.controller.machine.rolls import first_controller_roll, first_roll
from raftlog.partitions.controller.machine.rows import (
    AclRow,
    DeletedTopic,
    QuotaRow,
    RegisteredBroker,
    ReplicaAssignment,
    TopicRow,
    UserRow,
)
from raftlog.partitions.controller.machine.schema import settings_of
from raftlog.partitions.controller.machine.security_commands import (
    AclEntry,
    AlterClientQuotas,
    CreateAcls,
    DeleteAcls,
    DeleteUser,
    SetUserCredentials,
    StoredCredential,
)
from raftlog.partitions.controller.machine.snapshot import Restoration, SnapshotReader, snapshot_payloads
from raftlog.partitions.controller.machine.state import CommandAnswer, ControllerState

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.controller.machine"

__all__ = [
    "AclEntry",
    "AclRow",
    "AddPartitions",
    "Addresses",
    "AllocateProducerIds",
    "AlterClientQuotas",
    "AlterClusterConfig",
    "AlterTopicConfigs",
    "Bootstrap",
    "ClusterState",
    "Command",
    "CommandAnswer",
    "CommandRequest",
    "ControllerState",
    "CreateAcls",
    "CreateTopic",
    "DeleteAcls",
    "DeleteTopic",
    "DeleteUser",
    "DeletedTopic",
    "GroupName",
    "PlacementCandidate",
    "QuotaRow",
    "RegisterBroker",
    "RegisteredBroker",
    "RemoveBroker",
    "ReplicaAssignment",
    "ReplicaLoad",
    "Restoration",
    "SetAssignment",
    "SetFeatureLevel",
    "SetMaintenance",
    "SetUserCredentials",
    "SnapshotReader",
    "StoredCredential",
    "TopicRow",
    "UpdateBroker",
    "UserRow",
    "check_configs",
    "check_level",
    "controller_group_id",
    "decode_request",
    "encode_request",
    "first_controller_roll",
    "first_roll",
    "place_replicas",
    "settings_of",
    "snapshot_payloads",
]
