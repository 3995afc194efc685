"""Damage in this process's replica of the controller: other brokers repair it; a broker alone does not start.

Without its state there are no topics, and a gap in place of a command would change the state; so a broker that is
alone does not start, and reports what can be recovered. Called by the host, before any message is sent."""

import logging
from collections.abc import Sequence
from typing import Final

from raftlog.errors import CorruptBatch, InvalidArgument
from raftlog.partitions.addresses import Address
from raftlog.partitions.controller.bootstrap_record import BootstrapFile
from raftlog.partitions.node.node import Node
from raftlog.runtime.replica.partition_replica import PartitionReplica

_logger = logging.getLogger(__name__)
_ALONE: Final = (
    "This is the controller's log, and no other broker has it. Restore the data directory from a copy; or copy the "
    "records out of it (`raftlog log dump FILE --records --json`) and start in an empty directory: topics, their "
    "settings and committed offsets have to be created again. Nothing was deleted"
)


def check_repairable(
    node: Node, group: PartitionReplica, file: BootstrapFile, seeds: Sequence[Address], found: CorruptBatch | None
) -> None:
    """Log the damage; raise `CorruptBatch` with advice if no other broker can repair it.

    `found`: damage found when the local copy applied the log. A log that lost its end counts as damaged too."""
    damage = group.damage if found is None and group.core.voting_position is not None else found
    if damage is None:
        return
    if _is_alone(node, group, file, seeds):
        raise CorruptBatch(damage.file, damage.position, damage.offset, f"{damage.why}. {_ALONE}")
    _logger.error("%s; it is repaired from the other brokers", damage)


def _is_alone(node: Node, group: PartitionReplica, file: BootstrapFile, seeds: Sequence[Address]) -> bool:
    """Return whether no other broker can have the damaged data; the damage itself may hide members."""
    of_record = 1 if file.record is None else len(file.record.seeds)
    known = max(of_record, len(seeds), len(group.core.configuration.all_members()))
    return known < 2 and not node.transport.memory.records()


def lost_data_error(data_dir: str, cluster_id: str | None) -> InvalidArgument:
    """Return the error of a broker without seeds that lost its bootstrap record and its controller replica."""
    return InvalidArgument(
        f"the bootstrap record in {data_dir} is lost, and so is the controller's log, so this broker founds no cluster "
        f"over what is left of cluster {cluster_id or '(not known)'}. Give a member's address with --seeds: then it "
        "joins as a new disk, and is filled. Where there is no other member, topics and committed offsets cannot be "
        "recovered; records can, by `raftlog log dump FILE --records --json`. Then start in an empty directory; "
        "nothing that is left in this one was deleted"
    )
