"""Consumer instances as the REST Proxy's v2 has them: consumers that live in the service and are used by requests.

An instance lives at the coordinator of its group, and every broker forwards to there; what it is stands in the group's
log, so that the next coordinator goes on with it. Who may come in: the broker, as `broker.consumers`. It stands above
`groups`, whose members its instances are, and reads records through the broker.
"""

from raftlog.partitions.consumers.service import Consumers

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.consumers"

__all__ = ["Consumers"]
