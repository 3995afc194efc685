"""Events of the controller's decisions; only its leader writes them, so each occurs once in the cluster.

An event is written when the leader of the command's term applies it. So a replay writes none, and events of a
leader's last commands may be missing. Called by the local copy."""

import logging

from raftlog.events import event
from raftlog.partitions.controller.machine import ControllerState, commands
from raftlog.partitions.controller.machine.commands import Command, RegisterBroker

_logger = logging.getLogger(__name__)


def write_event(command: Command, state: ControllerState) -> None:
    """Write the event of a command; `state` is the state after the command."""
    match command:
        case commands.RegisterBroker():
            _write_broker_event(command)
        case commands.UpdateBroker():
            event(_logger, "broker_draining", node=command.node_id, is_draining=command.is_draining)
        case commands.SetMaintenance():
            event(_logger, "broker_maintenance", node=command.node_id, is_on=command.is_on)
        case commands.RemoveBroker():
            event(_logger, "broker_removed", node=command.node_id, disk=str(command.disk_uuid))
        case commands.CreateTopic():
            count, factor = len(command.partitions), command.replication_factor
            event(_logger, "topic_created", topic=command.name, partitions=count, replication_factor=factor)
        case commands.AddPartitions():
            count = len(command.partitions)
            event(_logger, "partitions_added", topic=command.name, partitions=count, total=command.total)
        case commands.AlterTopicConfigs():
            event(_logger, "topic_altered", topic=command.name, set=dict(command.configs), unset=list(command.unset))
        case commands.DeleteTopic():
            event(_logger, "topic_deleted", topic=command.name)
        case commands.SetAssignment():
            name = state.topic_by_id(command.topic_id).name
            nodes = [replica.node_id for replica in command.replicas]
            event(_logger, "partition_assigned", topic=name, partition=command.partition, replicas=nodes)
        case commands.AlterClusterConfig():
            event(_logger, "cluster_config_changed", set=dict(command.configs), unset=list(command.unset))
        case commands.SetFeatureLevel():
            event(_logger, "feature_level_raised", feature_level=command.level)


def _write_broker_event(command: RegisterBroker) -> None:
    """Write the event of a registration, and before it that of a disk replacement."""
    node, disk, addresses = command.node_id, str(command.disk_uuid), command.addresses
    if command.replaces is not None:
        event(_logger, "broker_replaced", node=node, old_disk=str(command.replaces), disk=disk)
    boot, http, rpc = command.boot_epoch, addresses.http, addresses.rpc
    event(_logger, "broker_registered", node=node, disk=disk, boot_epoch=boot, http=http, rpc=rpc)
