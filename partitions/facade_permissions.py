"""Permissions that API servers check before they call a method of the façade for a client.

The façade takes no caller, because RPC between brokers is trusted and one request can call it many times; so this table
says what its callers must check. A test compares it with the public methods, and sends every request of every API
as a caller without permissions: none may reach a method that is not `LISTING` or `INTERNAL`."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from raftlog.security.permissions import AclOperation, AclResourceType

Needed: TypeAlias = tuple[AclOperation, AclResourceType]
"""Operation, and the type of the resource that the arguments or the result name."""

_TOPIC, _GROUP, _CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
_READ_TOPIC: Final = (AclOperation.READ, _TOPIC)
_WRITE_TOPIC: Final = (AclOperation.WRITE, _TOPIC)
_DESCRIBE_TOPIC: Final = (AclOperation.DESCRIBE, _TOPIC)
_READ_GROUP: Final = (AclOperation.READ, _GROUP)
_DESCRIBE_GROUP: Final = (AclOperation.DESCRIBE, _GROUP)
_DELETE_GROUP: Final = (AclOperation.DELETE, _GROUP)
_WRITE_TRANSACTIONAL_ID: Final = (AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID)
_DESCRIBE_TRANSACTIONAL_ID: Final = (AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID)
_DESCRIBE_CLUSTER: Final = (AclOperation.DESCRIBE, _CLUSTER)
_ALTER_CLUSTER: Final = (AclOperation.ALTER, _CLUSTER)
_DESCRIBE_CONFIGS: Final = (AclOperation.DESCRIBE_CONFIGS, _CLUSTER)
_ALTER_CONFIGS: Final = (AclOperation.ALTER_CONFIGS, _CLUSTER)

GUARDED: Final[Mapping[str, tuple[Needed, ...]]] = {
    "Broker.produce_records": (_WRITE_TOPIC,),
    "Broker.produce_batches": (_WRITE_TOPIC,),
    "Broker.open_stream": (_WRITE_TOPIC,),
    "Broker.fetch": (_READ_TOPIC,),
    "Broker.offsets": (_DESCRIBE_TOPIC,),
    "Broker.offset_for_timestamp": (_DESCRIBE_TOPIC,),
    "Broker.delete_records": ((AclOperation.DELETE, _TOPIC),),
    "Broker.create_topic": ((AclOperation.CREATE, _TOPIC),),
    "Broker.create_partitions": ((AclOperation.ALTER, _TOPIC),),
    "Broker.delete_topic": ((AclOperation.DELETE, _TOPIC),),
    "Broker.alter_topic_config": ((AclOperation.ALTER_CONFIGS, _TOPIC),),
    "Broker.outline_topic": (_DESCRIBE_TOPIC,),
    "Broker.describe_topic": (_DESCRIBE_TOPIC,),
    "Broker.brokers": (_DESCRIBE_CLUSTER,),
    "Broker.members": (_DESCRIBE_CLUSTER,),
    "Broker.broker_ids": (_DESCRIBE_CLUSTER,),
    "Broker.health": (_DESCRIBE_CLUSTER,),
    "Broker.recover_partition": (_ALTER_CLUSTER,),
    "Groups.join": (_READ_GROUP,),
    "Groups.sync": (_READ_GROUP,),
    "Groups.heartbeat": (_READ_GROUP,),
    "Groups.leave": (_READ_GROUP,),
    "Groups.commit": (_READ_GROUP, _READ_TOPIC),
    "Groups.commit_each": (_READ_GROUP, _READ_TOPIC),
    "Groups.committed": (_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
    "Groups.stable_offsets": (_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
    "Groups.commit_pending": (_READ_GROUP, _READ_TOPIC, _WRITE_TRANSACTIONAL_ID),
    "Groups.describe": (_DESCRIBE_GROUP,),
    "Groups.lag": (_DESCRIBE_GROUP, _DESCRIBE_TOPIC),
    "Groups.delete": (_DELETE_GROUP,),
    "Groups.delete_offsets": (_DELETE_GROUP, _READ_TOPIC),
    "Groups.delete_partition_offsets": (_DELETE_GROUP, _READ_TOPIC),
    "Groups.reset": (_READ_GROUP, _READ_TOPIC),
    "Groups.coordinator": (_DESCRIBE_GROUP,),
    "Consumers.create": (_READ_GROUP,),
    "Consumers.delete": (_READ_GROUP,),
    "Consumers.subscribe": (_READ_GROUP, _READ_TOPIC),
    "Consumers.subscription": (_READ_GROUP, _DESCRIBE_TOPIC),
    "Consumers.unsubscribe": (_READ_GROUP,),
    "Consumers.assign": (_READ_GROUP, _READ_TOPIC),
    "Consumers.assignment": (_READ_GROUP, _DESCRIBE_TOPIC),
    "Consumers.seek": (_READ_GROUP, _READ_TOPIC),
    "Consumers.poll": (_READ_GROUP, _READ_TOPIC),
    "Consumers.commit": (_READ_GROUP, _READ_TOPIC),
    "Consumers.committed": (_READ_GROUP, _DESCRIBE_TOPIC),
    "Producers.allocate": ((AclOperation.IDEMPOTENT_WRITE, _CLUSTER),),
    "Transactions.initialize": (_WRITE_TRANSACTIONAL_ID,),
    "Transactions.add_partitions": (_WRITE_TRANSACTIONAL_ID, _WRITE_TOPIC),
    "Transactions.add_group": (_WRITE_TRANSACTIONAL_ID, _READ_GROUP),
    "Transactions.commit": (_WRITE_TRANSACTIONAL_ID,),
    "Transactions.abort": (_WRITE_TRANSACTIONAL_ID,),
    "Transactions.finish": (_WRITE_TRANSACTIONAL_ID,),
    "Transactions.fence": (_WRITE_TRANSACTIONAL_ID,),
    "Transactions.write_marker": (_ALTER_CLUSTER,),
    "Transactions.describe": (_DESCRIBE_TRANSACTIONAL_ID,),
    "Transactions.coordinator": (_DESCRIBE_TRANSACTIONAL_ID,),
    "Transactions.local_figures": (_DESCRIBE_CLUSTER,),
    "BrokerOperations.set_maintenance": (_ALTER_CLUSTER,),
    "BrokerOperations.maintenance": (_DESCRIBE_CLUSTER,),
    "BrokerOperations.decommission": (_ALTER_CLUSTER,),
    "BrokerOperations.recommission": (_ALTER_CLUSTER,),
    "BrokerOperations.decommission_status": (_DESCRIBE_CLUSTER,),
    "PartitionOperations.set_replicas": (_ALTER_CLUSTER,),
    "PartitionOperations.reconfigurations": (_DESCRIBE_CLUSTER, _DESCRIBE_TOPIC),
    "PartitionOperations.cancel_reconfiguration": (_ALTER_CLUSTER,),
    "PartitionOperations.cancel_moves": (_ALTER_CLUSTER,),
    "LeadershipOperations.transfer_leadership": (_ALTER_CLUSTER,),
    "RestoringOperations.restore_batches": (_ALTER_CLUSTER,),
    "TopicListing.outline": (_DESCRIBE_TOPIC,),
    "TopicListing.partitions": (_DESCRIBE_TOPIC,),
    "LocalReplicas.local_replicas": (_DESCRIBE_CLUSTER, _DESCRIBE_TOPIC),
    "LocalReplicas.local_summary": (_DESCRIBE_CLUSTER,),
    "LocalReplicas.active_producers": (_READ_TOPIC,),
    "BalancerOperations.balancer_status": (_DESCRIBE_CLUSTER,),
    "BalancerOperations.rebalance": (_ALTER_CLUSTER,),
    "ClusterOperations.cluster_config": (_DESCRIBE_CONFIGS,),
    "ClusterOperations.alter_cluster_config": (_ALTER_CONFIGS,),
    "ClusterOperations.cluster_config_status": (_DESCRIBE_CONFIGS,),
    "ClusterOperations.feature_levels": (_DESCRIBE_CLUSTER,),
    "ClusterOperations.finish_upgrade": (_ALTER_CLUSTER,),
    "LeaderAppends.begin": (_WRITE_TOPIC,),
    "TransactionAppends.append_batches": (_WRITE_TOPIC, _WRITE_TRANSACTIONAL_ID),
    "TransactionAppends.append_records": (_WRITE_TOPIC, _WRITE_TRANSACTIONAL_ID),
    "LeaderOffsets.first_offset": (_DESCRIBE_TOPIC,),
    "LeaderOffsets.end_offset": (_DESCRIBE_TOPIC,),
    "LeaderOffsets.offset_for_timestamp": (_DESCRIBE_TOPIC,),
    "LeaderOffsets.end_of_epoch": (_DESCRIBE_TOPIC,),
    "LeaderOffsets.delete_before": ((AclOperation.DELETE, _TOPIC),),
    "MetricSources.read_figures": (_DESCRIBE_CLUSTER, _DESCRIBE_TOPIC),
    "MetricSources.disk_space": (_DESCRIBE_CLUSTER,),
    "Groups.local_figures": (_DESCRIBE_CLUSTER, _DESCRIBE_GROUP),
    "Users.list": (_DESCRIBE_CLUSTER,),
    "Users.create": (_ALTER_CLUSTER,),
    "Users.set_password": (_ALTER_CLUSTER,),
    "Users.alter_credentials": (_ALTER_CLUSTER,),
    "Users.delete": (_ALTER_CLUSTER,),
    "Acls.describe": (_DESCRIBE_CLUSTER,),
    "Acls.create": (_ALTER_CLUSTER,),
    "Acls.delete": (_ALTER_CLUSTER,),
    "Quotas.describe": (_DESCRIBE_CONFIGS,),
    "Quotas.alter": (_ALTER_CONFIGS,),
}
"""Methods that are called for a client only after it was found to have all these permissions."""
LISTING: Final[Mapping[str, Needed]] = {
    "Broker.topics": _DESCRIBE_TOPIC,
    "Broker.outline_topics": _DESCRIBE_TOPIC,
    "Broker.describe_topics": _DESCRIBE_TOPIC,
    "Broker.cluster_view": _DESCRIBE_TOPIC,
    "TopicListing.outlines": _DESCRIBE_TOPIC,
    "TopicListing.sums": _DESCRIBE_TOPIC,
    "Groups.names": _DESCRIBE_GROUP,
    "Groups.listings": _DESCRIBE_GROUP,
    "Groups.local_listings": _DESCRIBE_GROUP,
    "Transactions.listings": _DESCRIBE_TRANSACTIONAL_ID,
    "Transactions.local_listings": _DESCRIBE_TRANSACTIONAL_ID,
    "Transactions.find_partitions": _WRITE_TOPIC,
    "LeaderFetches.fetch": _READ_TOPIC,
    "LeaderFetches.begin_session": _READ_TOPIC,
    "LeaderAppends.wait_for_outcomes": _WRITE_TOPIC,
    "TopicLeaders.describe_all": _DESCRIBE_TOPIC,
    "TopicLeaders.describe": _DESCRIBE_TOPIC,
}
"""Methods with lists.

Callers remove the elements for which the client lacks this permission, before or after the call."""
INTERNAL: Final = frozenset(
    {
        *(f"Broker.{name}" for name in ("open", "start", "close", "fail", "wake_fetches", "check_ready")),
        *(f"Broker.{name}" for name in ("leader_of", "addresses_of", "kafka_addresses")),
        *(
            f"Groups.{name}"
            for name in ("state_changed", "without_forwarding", "close", "is_coordinator_of", "leader_of")
        ),
        "Groups.end_transaction",
        *(f"Transactions.{name}" for name in ("state_changed", "without_forwarding", "close", "is_coordinator_of")),
        *(f"Transactions.{name}" for name in ("verify_partition", "verify_group", "taken_over_at", "allows_timeout")),
        *(f"Transactions.{name}" for name in ("join_partition", "join_group", "leader_of")),
        *(f"Consumers.{name}" for name in ("coordinator_began", "coordinator_ended", "state_changed")),
        *(f"Consumers.{name}" for name in ("stop_waiting", "close")),
        "LeaderAppends.close",
        "LeadershipOperations.refresh",
        *(f"Users.{name}" for name in ("credential", "any_credential", "is_superuser", "version_of")),
        *(f"Users.{name}" for name in ("superusers", "create_first")),
        "Acls.update_authorizer",
        *(f"Quotas.{name}" for name in ("value", "find", "connection_rate")),
    }
)
"""Methods that only the process calls: start, stop, addresses, routing, and decisions about callers."""
