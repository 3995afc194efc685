"""Handlers of administrative APIs: topics, configurations, placement and descriptions of the cluster."""

from raftlog.api.kafka.api import KafkaApi
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.handlers.admin.acls import AclRequests
from raftlog.api.kafka.handlers.admin.cluster import ClusterDescriptions
from raftlog.api.kafka.handlers.admin.config_changes import ConfigChanges
from raftlog.api.kafka.handlers.admin.configs import ConfigDescriptions
from raftlog.api.kafka.handlers.admin.placement import PlacementRequests
from raftlog.api.kafka.handlers.admin.quotas import QuotaRequests
from raftlog.api.kafka.handlers.admin.topics import TopicAdministration
from raftlog.api.kafka.handlers.applied import with_applied_changes


def apis(context: KafkaContext) -> list[KafkaApi]:
    """Return the APIs for administrators."""
    rooms = (
        TopicAdministration(context),
        ConfigDescriptions(context),
        ConfigChanges(context),
        PlacementRequests(context),
        ClusterDescriptions(context),
        AclRequests(context),
        QuotaRequests(context),
    )
    return with_applied_changes(context.broker, (api for room in rooms for api in room.apis()))
