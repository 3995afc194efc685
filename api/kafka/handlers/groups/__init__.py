"""Handlers of consumer groups: Kafka's classic protocol, committed offsets and administration.

A broker answers NOT_COORDINATOR for a group that it does not coordinate, also to waiting requests when another broker
becomes coordinator. Requests are not forwarded, because clients find the coordinator and send to it directly."""

from raftlog.api.kafka.api import KafkaApi
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.handlers.groups.administration import AdministrationHandlers
from raftlog.api.kafka.handlers.groups.discovery import DiscoveryHandlers
from raftlog.api.kafka.handlers.groups.membership import MembershipHandlers
from raftlog.api.kafka.handlers.groups.offsets import OffsetHandlers

__all__ = ["apis"]


def apis(context: KafkaContext) -> list[KafkaApi]:
    """Return the APIs of consumer groups."""
    groups, authorizer = context.broker.groups.without_forwarding(), context.broker.security.authorizer
    return [
        *DiscoveryHandlers(context).apis(),
        *MembershipHandlers(groups, authorizer, context.stopping).apis(),
        *OffsetHandlers(groups, authorizer).apis(),
        *AdministrationHandlers(groups, authorizer).apis(),
    ]
