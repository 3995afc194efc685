"""Damage in this process's replica of group 0: repaired from the other brokers, and refused where there are none.

Without its state there are no topics, and a gap in the place of a command would make another state of it; so a broker
that is alone does not start, and says what can be recovered. Called by the host, before anything is sent.
"""

import logging
from collections.abc import Sequence
from typing import Final

from raftlog.errors import CorruptBatch, InvalidArgument
from raftlog.partitions.addresses import Address
from raftlog.partitions.controller.bootstrap_record import BootstrapFile
from raftlog.partitions.node.node import Node
from raftlog.runtime.replica.group import Group

_logger = logging.getLogger(__name__)
_ALONE: Final = (
    "This is the controller's log, and no other broker has it. Restore the data directory from a copy; or copy the "
    "records out of it (`raftlog log dump FILE --records --json`) and start in an empty directory: topics, their "
    "settings and committed offsets have to be made again. Nothing was deleted"
)


def check_repairable(
    node: Node, group: Group, file: BootstrapFile, seeds: Sequence[Address], found: CorruptBatch | None
) -> None:
    """Log what was `found` when the copy was folded, or that the log lost its end; raise `CorruptBatch` with what to do
    where no other broker can repair it."""
    damage = group.damage if found is None and group.core.voting_position is not None else found
    if damage is None:
        return
    if _is_alone(node, group, file, seeds):
        raise CorruptBatch(damage.file, damage.position, damage.offset, f"{damage.why}. {_ALONE}")
    _logger.error("%s; it is repaired from the other brokers", damage)


def _is_alone(node: Node, group: Group, file: BootstrapFile, seeds: Sequence[Address]) -> bool:
    """Whether nobody else can have what is damaged here; the members may stand in what is damaged."""
    of_record = 1 if file.record is None else len(file.record.seeds)
    known = max(of_record, len(seeds), len(group.core.configuration.all_members()))
    return known < 2 and not node.transport.memory.records()


def lost_alone(data_dir: str, cluster_id: str | None) -> InvalidArgument:
    """The error of a broker without seeds that lost its bootstrap record and its replica of group 0."""
    return InvalidArgument(
        f"the bootstrap record in {data_dir} is lost, and so is the controller's log, so this broker founds no cluster "
        f"over what is left of cluster {cluster_id or '(not known)'}. Give a member's address with --seeds: then it "
        "joins as a new disk, and is filled. Where there is no other member, topics and committed offsets cannot be "
        "recovered; records can, by `raftlog log dump FILE --records --json`. Then start in an empty directory; "
        "nothing that is left in this one was deleted"
    )
