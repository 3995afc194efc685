"""Decisions of a broker: superusers, entries that change, refusals and their reports."""

from pathlib import Path

import pytest

from raftlog.errors import (
    ClusterNotAuthorized,
    GroupNotAuthorized,
    NotAuthorized,
    TopicNotAuthorized,
    TransactionalIdNotAuthorized,
    Unavailable,
)
from raftlog.partitions.broker import Broker
from raftlog.partitions.caller import Caller
from raftlog.partitions.security.authorizer import DECISIONS_MAX, Authorizer
from raftlog.partitions.settings import AUTHORIZATION_ACL, BrokerSettings
from raftlog.security.permissions import CLUSTER, Acl, AclEffect, AclOperation, AclResourceType, PatternType, Resource
from tests.small_journal import SMALL_JOURNAL

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


def test_nothing_is_refused_for_good_while_the_broker_starts() -> None:
    def fail(*_: object) -> None:
        raise AssertionError("reported")

    def check_ready() -> None:
        raise Unavailable("starting")

    authorizer = Authorizer(is_on=True, superusers=["root"], on_denied=fail, check_ready=check_ready)
    assert authorizer.permits(ALICE._replace(principal="root"), AclOperation.READ, ORDERS)
    with pytest.raises(Unavailable):
        authorizer.permits(ALICE, AclOperation.READ, ORDERS)
    with pytest.raises(Unavailable):
        authorizer.authorize(ALICE, AclOperation.READ, ORDERS)


async def test_a_broker_that_starts_knows_the_permissions_of_its_copy(tmp_path: Path) -> None:
    settings = BrokerSettings(data_dir=str(tmp_path), authorization=AUTHORIZATION_ACL, driver=SMALL_JOURNAL)
    broker = await Broker.open(settings)
    await broker.start("127.0.0.1:1", first_user="root:secret")
    await broker.close()
    broker = await Broker.open(settings)
    authorizer, root = broker.security.authorizer, ALICE._replace(principal="root")
    assert broker.security.users.is_superuser("root")
    assert authorizer.allows(root, AclOperation.ALTER, CLUSTER)
    with pytest.raises(Unavailable):
        authorizer.authorize(ALICE, AclOperation.DESCRIBE, ORDERS)
    await broker.start("127.0.0.1:1")
    with pytest.raises(TopicNotAuthorized):
        authorizer.authorize(ALICE, AclOperation.DESCRIBE, ORDERS)
    await broker.close()


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
