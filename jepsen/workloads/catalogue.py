"""All workloads by name."""

from collections.abc import Callable
from typing import Final, NamedTuple

from jepsen.workloads import compaction, groups, idempotent, log, register, topics
from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import Plan


class Workload(NamedTuple):
    """`begin` starts the roles of one client."""

    plan: Plan
    begin: Callable[[Client], None]


WORKLOADS: Final = {
    "log": Workload(log.PLAN, log.begin),
    "idempotent": Workload(idempotent.PLAN, idempotent.begin),
    "groups": Workload(groups.PLAN, groups.begin),
    "compaction": Workload(compaction.PLAN, compaction.begin),
    "topics": Workload(topics.PLAN, topics.begin),
    "register": Workload(register.PLAN, register.begin),
}
