"""Ids of idempotent producers: given by the controller in blocks, each id once.

Producers → metadata (a command of the controller)          called by the broker
"""

from raftlog.partitions.producers.given import GivenIds
from raftlog.partitions.producers.ids import ProducerId, Producers

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.producers"
__all__ = ["GivenIds", "ProducerId", "Producers"]
