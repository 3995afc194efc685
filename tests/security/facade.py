"""Public methods of the façade, and a recorder of those that requests reach."""

import functools
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from raftlog.partitions.broker import Broker
from raftlog.partitions.consumers.service import Consumers
from raftlog.partitions.groups.service import Groups
from raftlog.partitions.leader.appends import LeaderAppends
from raftlog.partitions.leader.offsets import LeaderOffsets
from raftlog.partitions.leader.parts import LeaderFetches
from raftlog.partitions.leader.topic_leaders import TopicLeaders
from raftlog.partitions.leader.transaction_appends import TransactionAppends
from raftlog.partitions.metric_sources import MetricSources
from raftlog.partitions.operations.balancer_operations import BalancerOperations
from raftlog.partitions.operations.brokers import BrokerOperations
from raftlog.partitions.operations.cluster import ClusterOperations
from raftlog.partitions.operations.leadership import LeadershipOperations
from raftlog.partitions.operations.local import LocalReplicas
from raftlog.partitions.operations.partitions import PartitionOperations
from raftlog.partitions.operations.restoring import RestoringOperations
from raftlog.partitions.operations.topic_listing import TopicListing
from raftlog.partitions.produce import Producers
from raftlog.partitions.security.acls import Acls
from raftlog.partitions.security.quotas import Quotas
from raftlog.partitions.security.users import Users
from raftlog.partitions.transactions.service import Transactions

FACADE: tuple[type, ...] = (
    Broker,
    Groups,
    Consumers,
    Producers,
    Transactions,
    BrokerOperations,
    PartitionOperations,
    LeadershipOperations,
    LocalReplicas,
    BalancerOperations,
    ClusterOperations,
    RestoringOperations,
    TopicListing,
    LeaderAppends,
    LeaderFetches,
    LeaderOffsets,
    TopicLeaders,
    TransactionAppends,
    MetricSources,
    Users,
    Acls,
    Quotas,
)


def public_methods() -> Iterator[tuple[type, str]]:
    """Yield class and name of the façade's public methods, without properties."""
    for kind in FACADE:
        for name, found in vars(kind).items():
            if not name.startswith("_") and (inspect.isfunction(found) or isinstance(found, classmethod)):
                yield kind, name


def record_calls(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Record the methods that are called from now on."""
    called: set[str] = set()

    def recorder(name: str, method: Any) -> Any:
        @functools.wraps(method)
        def record(*args: Any, **options: Any) -> Any:
            called.add(name)
            return method(*args, **options)

        return record

    for kind, name in public_methods():
        if inspect.isfunction(vars(kind)[name]):
            monkeypatch.setattr(kind, name, recorder(f"{kind.__name__}.{name}", vars(kind)[name]))
    return called
