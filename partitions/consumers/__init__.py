"""Consumer instances as in the REST Proxy v2: consumers that a broker runs for clients of its REST API.

An instance runs at the coordinator of its consumer group; every broker forwards requests to it. Its state is
stored in the group's log, so the next coordinator continues with it. Entry point: the broker, as `broker.consumers`.
The package imports `groups`, whose group members the instances are, and reads records through the broker."""

from raftlog.partitions.consumers.service import Consumers

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.consumers"

__all__ = ["Consumers"]
