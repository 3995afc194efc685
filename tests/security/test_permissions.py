"""Entries of access control lists: matching, precedence, implied operations, filters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.security.acl_index import AclIndex
from raftlog.security.permissions import (
    CLUSTER,
    OPERATIONS,
    WILDCARD,
    Acl,
    AclEffect,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    Resource,
)

ORDERS = Resource(AclResourceType.TOPIC, "orders")


def topic(
    name: str,
    operation: AclOperation = AclOperation.READ,
    *,
    pattern: PatternType = PatternType.LITERAL,
    principal: str = "User:alice",
    host: str = WILDCARD,
    effect: AclEffect = AclEffect.ALLOW,
) -> Acl:
    return Acl(AclResourceType.TOPIC, pattern, name, principal, host, operation, effect)


def allows(
    *acls: Acl, operation: AclOperation = AclOperation.READ, resource: Resource = ORDERS, host: str = "10.0.0.1"
) -> bool:
    return AclIndex(acls).allows("alice", host, operation, resource)


def test_without_an_entry_an_operation_is_denied() -> None:
    assert not allows()


@pytest.mark.parametrize(
    ("acl", "is_allowed"),
    [
        (topic("orders"), True),
        (topic("order"), False),
        (topic("orders2"), False),
        (topic(WILDCARD), True),
        (topic("ord", pattern=PatternType.PREFIXED), True),
        (topic("orders", pattern=PatternType.PREFIXED), True),
        (topic("orders2", pattern=PatternType.PREFIXED), False),
        (topic("orders", principal="User:bob"), False),
        (topic("orders", principal="User:*"), True),
        (topic("orders", host="10.0.0.1"), True),
        (topic("orders", host="10.0.0.2"), False),
        (topic("orders", AclOperation.WRITE), False),
        (topic("orders", AclOperation.ALL), True),
    ],
)
def test_an_entry_allows_only_matching_requests(acl: Acl, *, is_allowed: bool) -> None:
    assert allows(acl) is is_allowed


def test_an_entry_for_a_topic_does_not_allow_a_group_of_that_name() -> None:
    assert not allows(topic("orders"), resource=Resource(AclResourceType.GROUP, "orders"))


@pytest.mark.parametrize("denied", [AclOperation.READ, AclOperation.ALL])
@pytest.mark.parametrize("pattern", [topic("orders"), topic(WILDCARD), topic("o", pattern=PatternType.PREFIXED)])
def test_a_denial_wins_over_every_permission(denied: AclOperation, pattern: Acl) -> None:
    denial = pattern._replace(operation=denied, effect=AclEffect.DENY)
    for acls in ((denial, topic("orders"), topic(WILDCARD)), (topic(WILDCARD), topic("orders"), denial)):
        assert not allows(*acls)


@pytest.mark.parametrize("granting", [AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER])
def test_describe_is_implied_by_stronger_operations(granting: AclOperation) -> None:
    assert allows(topic("orders", granting), operation=AclOperation.DESCRIBE)


def test_describe_configs_is_implied_by_alter_configs_only() -> None:
    assert allows(topic("orders", AclOperation.ALTER_CONFIGS), operation=AclOperation.DESCRIBE_CONFIGS)
    assert not allows(topic("orders", AclOperation.READ), operation=AclOperation.DESCRIBE_CONFIGS)


def test_a_denied_read_does_not_deny_describe() -> None:
    denial = topic("orders", effect=AclEffect.DENY)
    assert allows(denial, topic("orders", AclOperation.WRITE), operation=AclOperation.DESCRIBE)
    assert not allows(
        topic("orders", AclOperation.DESCRIBE, effect=AclEffect.DENY), topic("orders"), operation=AclOperation.DESCRIBE
    )


def test_the_cluster_is_a_resource_of_its_own() -> None:
    acl = Acl(
        AclResourceType.CLUSTER,
        PatternType.LITERAL,
        CLUSTER.name,
        "User:alice",
        "*",
        AclOperation.ALTER,
        AclEffect.ALLOW,
    )
    assert allows(acl, operation=AclOperation.ALTER, resource=CLUSTER)
    assert allows(acl, operation=AclOperation.DESCRIBE, resource=CLUSTER)
    assert not allows(acl, operation=AclOperation.CREATE, resource=CLUSTER)


class TestAnyResource:
    """Permission on some resource of a type (KIP-679)."""

    def any_topic(self, *acls: Acl) -> bool:
        return AclIndex(acls).allows_any("alice", "10.0.0.1", AclOperation.WRITE, AclResourceType.TOPIC)

    def test_a_literal_or_prefixed_permission_suffices(self) -> None:
        assert self.any_topic(topic("orders", AclOperation.WRITE))
        assert self.any_topic(topic("o", AclOperation.ALL, pattern=PatternType.PREFIXED))
        assert not self.any_topic(topic("orders", AclOperation.READ))
        assert not self.any_topic(topic("orders", AclOperation.WRITE, principal="User:bob"))

    @pytest.mark.parametrize(
        "denial", [topic("orders"), topic("ord", pattern=PatternType.PREFIXED), topic(WILDCARD)], ids=str
    )
    def test_a_denial_that_covers_the_permission_takes_it_away(self, denial: Acl) -> None:
        denial = denial._replace(operation=AclOperation.WRITE, effect=AclEffect.DENY)
        assert not self.any_topic(topic("orders", AclOperation.WRITE), denial)

    def test_a_narrower_denial_leaves_some_resource(self) -> None:
        denial = topic("orders", AclOperation.WRITE, effect=AclEffect.DENY)
        assert self.any_topic(topic("ord", AclOperation.WRITE, pattern=PatternType.PREFIXED), denial)
        prefixed = topic("ord", AclOperation.WRITE, pattern=PatternType.PREFIXED, effect=AclEffect.DENY)
        assert self.any_topic(topic(WILDCARD, AclOperation.WRITE), prefixed)


def test_every_type_of_resource_has_operations() -> None:
    assert set(OPERATIONS) == set(AclResourceType) - {AclResourceType.ANY}
    assert all(AclOperation.ALL in each and AclOperation.ANY not in each for each in OPERATIONS.values())


class TestFilters:
    """Selection of entries to describe or delete."""

    @pytest.mark.parametrize(
        ("chosen", "is_matched"),
        [
            (AclFilter(), True),
            (AclFilter(AclResourceType.GROUP), False),
            (AclFilter(AclResourceType.TOPIC, PatternType.LITERAL, "ord"), False),
            (AclFilter(AclResourceType.TOPIC, PatternType.PREFIXED, "ord"), True),
            (AclFilter(AclResourceType.TOPIC, PatternType.ANY, "ord"), True),
            (AclFilter(AclResourceType.TOPIC, PatternType.ANY, "orders"), False),
            (AclFilter(AclResourceType.TOPIC, PatternType.MATCH, "orders"), True),
            (AclFilter(AclResourceType.TOPIC, PatternType.MATCH, "or"), False),
            (AclFilter(principal="User:alice"), True),
            (AclFilter(principal="User:bob"), False),
            (AclFilter(host="10.0.0.1"), False),
            (AclFilter(operation=AclOperation.READ), True),
            (AclFilter(operation=AclOperation.ALL), False),
            (AclFilter(effect=AclEffect.DENY), False),
        ],
    )
    def test_filters_match_a_prefixed_entry_by_all_their_fields(self, chosen: AclFilter, *, is_matched: bool) -> None:
        assert chosen.matches(topic("ord", pattern=PatternType.PREFIXED)) is is_matched

    def test_a_wildcard_matches_every_name(self) -> None:
        assert AclFilter(AclResourceType.TOPIC, PatternType.MATCH, "orders").matches(topic(WILDCARD))
        assert not AclFilter(AclResourceType.TOPIC, PatternType.LITERAL, "orders").matches(topic(WILDCARD))


NAMES = st.sampled_from(["a", "ab", "abc", "b", WILDCARD])
ACLS = st.builds(
    Acl,
    st.sampled_from([AclResourceType.TOPIC, AclResourceType.GROUP]),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    NAMES,
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["*", "10.0.0.1", "10.0.0.2"]),
    st.sampled_from([AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL]),
    st.sampled_from([AclEffect.ALLOW, AclEffect.DENY]),
)


@given(
    st.lists(ACLS, max_size=12),
    st.sampled_from(["a", "ab", "abc", "abcd", "b", "c"]),
    st.sampled_from([AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE]),
)
def test_the_index_decides_as_the_definition_does(acls: list[Acl], name: str, operation: AclOperation) -> None:
    """Compare the index with a scan over all entries, written from Kafka's documentation."""
    chosen = AclFilter(AclResourceType.TOPIC, PatternType.MATCH, name)
    relevant = [
        acl
        for acl in acls
        if chosen.matches(acl) and acl.principal in ("User:alice", "User:*") and acl.host in ("*", "10.0.0.1")
    ]
    implying = {operation, AclOperation.ALL}
    if operation is AclOperation.DESCRIBE:
        implying |= {AclOperation.READ, AclOperation.WRITE}
    is_denied = any(acl.effect is AclEffect.DENY and acl.operation in (operation, AclOperation.ALL) for acl in relevant)
    is_allowed = any(acl.effect is AclEffect.ALLOW and acl.operation in implying for acl in relevant)
    found = AclIndex(acls).allows("alice", "10.0.0.1", operation, Resource(AclResourceType.TOPIC, name))
    assert found is (is_allowed and not is_denied)
