"""Events for the controller's commands: each command is logged, except those without a visible change."""

import logging
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.events import EVENTS
from raftlog.partitions.controller.change_events import write_event
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
)
from raftlog.partitions.controller.machine.request import KINDS
from raftlog.partitions.controller.machine.security_commands import (
    AlterClientQuotas,
    CreateAcls,
    DeleteAcls,
    DeleteUser,
    SetUserCredentials,
)
from raftlog.raft import ReplicaId
from raftlog.types import Index, NodeId

DISK, OLD, TOPIC = (uuid.UUID(int=number) for number in (1, 2, 3))
NODE = NodeId(7)
ADDRESSES = Addresses("h:1", "h:2", "")
REPLICAS = (ReplicaId(NODE, DISK), ReplicaId(NodeId(1), OLD))
NO_NEWS = {Bootstrap, AllocateProducerIds}
AUDITED = {SetUserCredentials, DeleteUser, CreateAcls, DeleteAcls, AlterClientQuotas}
"""Commands whose audit event, with the caller, is written by the broker that proposes them."""
REGISTERED = {"node": 7, "disk": str(DISK), "boot_epoch": 2, "http": "h:1", "rpc": "h:2"}
LOGGED: list[tuple[Command, dict[str, dict[str, Any]]]] = [
    (RegisterBroker(NODE, DISK, 2, "host", ADDRESSES, 1, 3), {"broker_registered": REGISTERED}),
    (
        RegisterBroker(NODE, DISK, 2, "host", ADDRESSES, 1, 3, replaces=OLD),
        {
            "broker_replaced": {"node": 7, "old_disk": str(OLD), "disk": str(DISK)},
            "broker_registered": REGISTERED,
        },
    ),
    (UpdateBroker(NODE, DISK, True), {"broker_draining": {"node": 7, "is_draining": True}}),
    (SetMaintenance(NODE, DISK, False), {"broker_maintenance": {"node": 7, "is_on": False}}),
    (RemoveBroker(NODE, DISK), {"broker_removed": {"node": 7, "disk": str(DISK)}}),
    (
        CreateTopic("t", TOPIC, (REPLICAS, REPLICAS), (), 0),
        {"topic_created": {"topic": "t", "partitions": 2, "replication_factor": 2}},
    ),
    (
        AddPartitions("t", TOPIC, 2, (REPLICAS,), 0),
        {"partitions_added": {"topic": "t", "partitions": 1, "total": 3}},
    ),
    (
        AlterTopicConfigs("t", TOPIC, (("retention.ms", "1"),), ("segment.bytes",)),
        {"topic_altered": {"topic": "t", "set": {"retention.ms": "1"}, "unset": ["segment.bytes"]}},
    ),
    (DeleteTopic("t", TOPIC), {"topic_deleted": {"topic": "t"}}),
    (
        SetAssignment(TOPIC, 1, REPLICAS, Index(5)),
        {"partition_assigned": {"topic": "t", "partition": 1, "replicas": [7, 1]}},
    ),
    (
        AlterClusterConfig((("balancer.mode", "off"),)),
        {"cluster_config_changed": {"set": {"balancer.mode": "off"}, "unset": []}},
    ),
    (SetFeatureLevel(3), {"feature_level_raised": {"feature_level": 3}}),
]


@pytest.mark.parametrize(("command", "logged"), LOGGED, ids=lambda each: type(each).__name__)
def test_a_command_is_logged(
    command: Command, logged: dict[str, dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    state: Any = SimpleNamespace(topic_by_id=lambda topic_id: SimpleNamespace(name="t"))
    caplog.set_level(logging.INFO, "raftlog")
    write_event(command, state)
    seen = {
        record.getMessage(): {name: getattr(record, name) for name in EVENTS[record.getMessage()].fields}
        for record in caplog.records
    }
    assert seen == logged


def test_every_command_is_logged_or_excluded() -> None:
    assert {type(command) for command, _ in LOGGED} | NO_NEWS | AUDITED == set(KINDS)
