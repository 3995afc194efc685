"""Decisions of a broker: superusers, entries that change, refusals and their reports."""

import pytest

from raftlog.errors import (
    ClusterNotAuthorized,
    GroupNotAuthorized,
    NotAuthorized,
    TopicNotAuthorized,
    TransactionalIdNotAuthorized,
)
from raftlog.partitions.caller import Caller
from raftlog.partitions.security.authorizer import DECISIONS_MAX, Authorizer
from raftlog.security.permissions import CLUSTER, Acl, AclEffect, AclOperation, AclResourceType, PatternType, Resource

ALICE = Caller("alice", "tests", "10.0.0.1", "kafka")
ORDERS = Resource(AclResourceType.TOPIC, "orders")
READ_ORDERS = Acl(
    AclResourceType.TOPIC, PatternType.LITERAL, "orders", "User:alice", "*", AclOperation.READ, AclEffect.ALLOW
)


def test_everything_is_allowed_while_it_is_off() -> None:
    authorizer = Authorizer()
    authorizer.authorize(ALICE, AclOperation.ALTER, CLUSTER)
    assert authorizer.allows_any(ALICE, AclOperation.WRITE, AclResourceType.TOPIC)


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (ORDERS, TopicNotAuthorized),
        (Resource(AclResourceType.GROUP, "g"), GroupNotAuthorized),
        (CLUSTER, ClusterNotAuthorized),
        (Resource(AclResourceType.TRANSACTIONAL_ID, "t"), TransactionalIdNotAuthorized),
    ],
)
def test_a_refusal_is_raised_and_reported(resource: Resource, error: type[NotAuthorized]) -> None:
    reported: list[tuple[Caller, AclOperation, Resource]] = []
    authorizer = Authorizer(is_on=True, on_denied=lambda *denied: reported.append(denied))
    with pytest.raises(error, match="alice may not DESCRIBE"):
        authorizer.authorize(ALICE, AclOperation.DESCRIBE, resource)
    assert reported == [(ALICE, AclOperation.DESCRIBE, resource)]


def test_a_question_without_consequence_is_not_reported() -> None:
    def fail(*_: object) -> None:
        raise AssertionError("reported")

    authorizer = Authorizer(is_on=True, on_denied=fail)
    assert not authorizer.allows(ALICE, AclOperation.READ, ORDERS)
    assert not authorizer.allows_any(ALICE, AclOperation.READ, AclResourceType.TOPIC)


def test_superusers_of_configuration_and_state_may_do_everything() -> None:
    authorizer = Authorizer(is_on=True, superusers=["alice"])
    assert authorizer.allows(ALICE, AclOperation.ALTER, CLUSTER)
    authorizer.refresh([], ["root"])
    assert authorizer.allows(ALICE, AclOperation.ALTER, CLUSTER)
    assert authorizer.allows_any(ALICE._replace(principal="root"), AclOperation.WRITE, AclResourceType.TOPIC)
    authorizer.refresh([], [])
    assert not authorizer.allows(ALICE._replace(principal="root"), AclOperation.ALTER, CLUSTER)


def test_changed_entries_replace_the_decisions() -> None:
    authorizer = Authorizer(is_on=True)
    assert not authorizer.allows(ALICE, AclOperation.READ, ORDERS)
    authorizer.refresh([READ_ORDERS], [])
    assert authorizer.allows(ALICE, AclOperation.READ, ORDERS)
    authorizer.refresh([READ_ORDERS, READ_ORDERS._replace(effect=AclEffect.DENY)], [])
    assert not authorizer.allows(ALICE, AclOperation.READ, ORDERS)


def test_kept_decisions_are_bounded() -> None:
    authorizer = Authorizer(is_on=True)
    authorizer.refresh([READ_ORDERS], [])
    for number in range(DECISIONS_MAX + 10):
        assert not authorizer.allows(ALICE, AclOperation.READ, Resource(AclResourceType.TOPIC, f"t{number}"))
    assert authorizer.allows(ALICE, AclOperation.READ, ORDERS)
    assert len(authorizer._decisions) <= DECISIONS_MAX


def test_kept_decisions_about_any_resource_follow_changes() -> None:
    authorizer = Authorizer(is_on=True)
    arguments = (ALICE, AclOperation.READ, AclResourceType.TOPIC)
    assert not authorizer.allows_any(*arguments)
    authorizer.update([READ_ORDERS], [], [])
    assert authorizer.allows_any(*arguments)
    authorizer.update([], [READ_ORDERS], [])
    assert not authorizer.allows_any(*arguments)
