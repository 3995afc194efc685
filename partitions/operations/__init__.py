"""What operators can order of a cluster, and how far it is.

Who may come in: the broker, as `broker.operations`. What is ordered is decided by the controller (`control`); who moves
replicas is `moves`, who plans them is `balancing`.
"""

from raftlog.partitions.operations.operations import Operations

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.operations"

__all__ = ["Operations"]
