"""Reassignments: leaders change the Raft configurations of their groups, and removed replicas are deleted.

Entry point: the broker, which starts it and calls it on changes. The target is the controller's assignment
(`controller`); the voters are in the group's own log. Moves, replaced disks and other replica counts are handled
alike."""

from raftlog.partitions.placement.moves.losses import lost_majority
from raftlog.partitions.placement.moves.moves import Moves
from raftlog.partitions.placement.moves.plan import matches_assignment, next_change
from raftlog.partitions.placement.moves.replica_removal import ReplicaRemoval

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.placement.moves"

__all__ = ["Moves", "ReplicaRemoval", "lost_majority", "matches_assignment", "next_change"]
