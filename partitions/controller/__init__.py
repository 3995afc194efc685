"""Group 0 on a node: founding and joining a cluster, the local copy of the controller's state, commands, snapshots.

Who may come in: the façade of a broker. What the commands mean is the business of `partitions.controller.machine`.
"""

from raftlog.partitions.addresses import address_text, parse_address
from raftlog.partitions.controller.host import ControllerHost, Freshness
from raftlog.partitions.controller.settings import MetadataSettings

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.controller"

__all__ = ["ControllerHost", "Freshness", "MetadataSettings", "address_text", "parse_address"]
