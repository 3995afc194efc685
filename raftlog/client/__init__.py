"""Client library: the network API for programs that use a cluster.

It reaches brokers only through their HTTP API and shares only types, errors, settings and the batch format with them.
Errors of the broker are raised as the same classes, outcome included."""

from raftlog.client.addresses import BrokerAddresses
from raftlog.client.answers import (
    Fetched,
    Produced,
    ProducerIdentity,
)
from raftlog.client.broker import BrokerClient
from raftlog.client.consumers.consumer import Consumer
from raftlog.client.consumers.consumer_settings import ConsumerRecord, RebalanceListener
from raftlog.client.consumers.handler_loop import HandlerFailed, HandlerLoop, RejectRecord
from raftlog.client.failures import NotListening
from raftlog.client.group_answers import CommittedOffset, Membership
from raftlog.client.groups import GroupClient
from raftlog.client.producers.delivery import Delivered, Delivery
from raftlog.client.producers.producer import Producer
from raftlog.client.producers.transactional_producer import TransactionAborted, TransactionalProducer
from raftlog.client.serializers import (
    DeserializationFailed,
    Deserializer,
    Serializer,
    deserialize_bytes,
    deserialize_json,
    deserialize_str,
    serialize_bytes,
    serialize_json,
    serialize_str,
)
from raftlog.types import OffsetRange, TopicPartition
from raftlog.values.brokers import BrokerDescription, ClusterHealth
from raftlog.values.cluster import ClusterView, TopicView
from raftlog.values.groups import (
    ConsumerDescription,
    GroupDescription,
    GroupMember,
    Joined,
    Left,
    OffsetReset,
    PartitionLag,
    Synced,
)
from raftlog.values.topics import PartitionDescription, TopicDescription

__all__ = [
    "BrokerAddresses",
    "BrokerClient",
    "BrokerDescription",
    "ClusterHealth",
    "ClusterView",
    "CommittedOffset",
    "Consumer",
    "ConsumerDescription",
    "ConsumerRecord",
    "Delivered",
    "Delivery",
    "DeserializationFailed",
    "Deserializer",
    "Fetched",
    "GroupClient",
    "GroupDescription",
    "GroupMember",
    "HandlerFailed",
    "HandlerLoop",
    "Joined",
    "Left",
    "Membership",
    "NotListening",
    "OffsetRange",
    "OffsetReset",
    "PartitionDescription",
    "PartitionLag",
    "Produced",
    "Producer",
    "ProducerIdentity",
    "RebalanceListener",
    "RejectRecord",
    "Serializer",
    "Synced",
    "TopicDescription",
    "TopicPartition",
    "TopicView",
    "TransactionAborted",
    "TransactionalProducer",
    "deserialize_bytes",
    "deserialize_json",
    "deserialize_str",
    "serialize_bytes",
    "serialize_json",
    "serialize_str",
]
