"""Events of denials: one for each caller, operation and resource in an interval, with the number of the others."""

from typing import Any

import pytest

from raftlog.partitions.caller import Caller
from raftlog.partitions.security import audit
from raftlog.partitions.security.audit import DENIAL_INTERVAL_S, NAME_MAX, Denials
from raftlog.security.permissions import CLUSTER, AclOperation, AclResourceType, Resource

ALICE = Caller("alice", "tests", "10.0.0.1", "kafka")
ORDERS = Resource(AclResourceType.TOPIC, "orders")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    monkeypatch.setattr(audit, "event", lambda logger, name, **fields: events.append({"name": name, **fields}))
    return events


def test_repeated_denials_are_counted_in_the_next_event(written: list[dict[str, Any]]) -> None:
    now = 0.0
    denials = Denials(lambda: now)
    for _ in range(5):
        denials.note(ALICE, AclOperation.READ, ORDERS)
    denials.note(ALICE, AclOperation.WRITE, ORDERS)
    denials.note(ALICE, AclOperation.READ, CLUSTER)
    assert [(each["operation"], each["resource"], each["count"]) for each in written] == [
        ("READ", "orders", 1),
        ("WRITE", "orders", 1),
        ("READ", "kafka-cluster", 1),
    ]
    now = DENIAL_INTERVAL_S
    denials.note(ALICE, AclOperation.READ, ORDERS)
    assert written[-1] == {
        "name": "authorization_denied",
        "principal": "alice",
        "address": "10.0.0.1",
        "listener": "kafka",
        "operation": "READ",
        "resource_type": "TOPIC",
        "resource": "orders",
        "count": 5,
    }


def test_what_is_remembered_is_bounded(written: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "DENIALS_MAX", 3)
    denials = Denials(lambda: 0.0)
    for number in range(10):
        denials.note(ALICE, AclOperation.READ, Resource(AclResourceType.TOPIC, f"{number}" * 1_000))
    assert len(written) == 10
    assert len(denials._written) <= 3
    assert {len(each["resource"]) for each in written} == {NAME_MAX}
