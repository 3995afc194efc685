"""Path of records to the leader of a partition: spread over partitions, put into batches, queued, answered.

    records → spreading → ProduceQueue of each partition → the replica here, or another node's

Also the ids of idempotent producers, which the controller allocates in blocks, each id once.
"""

from raftlog.partitions.produce.allocated_ids import AllocatedIds, computed_id_error
from raftlog.partitions.produce.producer_ids import ProducerId, Producers

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.produce"
__all__ = ["AllocatedIds", "ProducerId", "Producers", "computed_id_error"]
