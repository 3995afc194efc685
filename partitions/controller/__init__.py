"""Controller on a node: founding and joining a cluster, the local copy of the state, commands, snapshots.

Entry point: the broker. `partitions.controller.machine` defines the commands and their rules."""

from raftlog.partitions.addresses import address_text, parse_address
from raftlog.partitions.controller.host import ControllerHost, Freshness
from raftlog.partitions.controller.settings import MetadataSettings

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.controller"

__all__ = ["ControllerHost", "Freshness", "MetadataSettings", "address_text", "parse_address"]
