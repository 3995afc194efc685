"""Handlers of the APIs for records: Metadata, Produce, Fetch, offsets, epochs, deletion and producer ids.

The handlers convert requests to calls of `raftlog.partitions.leader`. Only the leader of a partition serves a request;
other brokers answer NOT_LEADER_OR_FOLLOWER."""

from raftlog.api.kafka.api import KafkaApi
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.handlers.data import fetch, metadata, offsets, produce, producer_ids


def apis(context: KafkaContext) -> list[KafkaApi]:
    """Return the APIs for records."""
    rooms = (metadata, produce, fetch, offsets, producer_ids)
    return [api for room in rooms for api in room.apis(context)]
