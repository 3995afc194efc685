"""All workloads by name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from jepsen.workloads import (
    compaction,
    groups,
    handlers,
    idempotent,
    log,
    plain,
    register,
    topics,
    transactions,
    trimming,
)
from jepsen.workloads.adapters.port import ClientName
from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import Plan


class Workload(NamedTuple):
    """Workload of a test: topics that it needs, and the function that adds its roles to one client."""

    plan: Plan
    begin: Callable[[Client], None]


WORKLOADS: Final = {
    "plain": Workload(plain.PLAN, plain.begin),
    "log": Workload(log.PLAN, log.begin),
    "idempotent": Workload(idempotent.PLAN, idempotent.begin),
    "groups": Workload(groups.PLAN, groups.begin),
    "handlers": Workload(handlers.PLAN, handlers.begin),
    "compaction": Workload(compaction.PLAN, compaction.begin),
    "trimming": Workload(trimming.PLAN, trimming.begin),
    "topics": Workload(topics.PLAN, topics.begin),
    "register": Workload(register.PLAN, register.begin),
    "transactions": Workload(transactions.PLAN, transactions.begin),
}
_KAFKA_WORKLOADS: Final = ("log", "idempotent", "groups", "transactions")
CLIENT_WORKLOADS: Final[Mapping[ClientName, Sequence[str]]] = {
    "http": tuple(WORKLOADS),
    "librdkafka": _KAFKA_WORKLOADS,
    "aiokafka": _KAFKA_WORKLOADS,
    "java": ("transactions",),
}
"""Workloads that clients with each library can run."""
