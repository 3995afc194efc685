"""Operations of operators on a cluster, and their progress.

Imported by the broker, as `broker.operations`. Requests are decided by the controller (`controller`); replicas are
moved by `placement.moves`, and moves are planned by `placement.balancing`."""

from raftlog.partitions.operations.operations import Operations

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.operations"

__all__ = ["Operations"]
