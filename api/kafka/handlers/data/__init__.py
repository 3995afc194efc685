"""Handlers of the APIs for records: Metadata, Produce, Fetch, offsets, epochs, deletion and producer ids.

Each is a thin shell over `raftlog.partitions.leader`: the leader serves them alone, and a request for a partition that
another broker leads is answered with NOT_LEADER_OR_FOLLOWER."""

from raftlog.api.kafka.api import KafkaApi
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.handlers.data import fetch, metadata, offsets, produce, producer_ids


def apis(context: KafkaContext) -> list[KafkaApi]:
    """Return the APIs for records."""
    rooms = (metadata, produce, fetch, offsets, producer_ids)
    return [api for room in rooms for api in room.apis(context)]
