"""Index of access control entries: the same cost for any number of entries, and single changes of it."""

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.security import acl_index
from raftlog.security.acl_index import AclIndex
from raftlog.security.permissions import Acl, AclEffect, AclOperation, AclResourceType, PatternType, Resource
from tests.security.test_permissions import ACLS

ORDERS = Resource(AclResourceType.TOPIC, "orders.eu.2026")
HOST = "10.0.0.1"
MINE = [
    Acl(AclResourceType.TOPIC, PatternType.PREFIXED, "orders.", "User:alice", "*", AclOperation.READ, AclEffect.ALLOW),
    Acl(AclResourceType.TOPIC, PatternType.LITERAL, "x", "User:alice", HOST, AclOperation.WRITE, AclEffect.ALLOW),
]


def make_others(count: int) -> list[Acl]:
    """Return entries that a careless index would look at: of other users, for the same and for other resources."""
    patterns = [
        (PatternType.LITERAL, ORDERS.name),
        (PatternType.LITERAL, "*"),
        (PatternType.PREFIXED, "orders."),
        (PatternType.LITERAL, "other"),
    ]
    made = []
    for number in range(count):
        pattern, name = patterns[number % len(patterns)]
        who = f"User:user-{number}" if number % 3 else "User:alice"
        name = name if number % 3 else f"{'p' * (number % 7 + 1)}-{number:06}"
        made.append(Acl(AclResourceType.TOPIC, pattern, name, who, "*", AclOperation.READ, AclEffect.ALLOW))
    return made


def count_steps(work: Callable[[], object]) -> int:
    """Return the number of lines of the index that a call executes."""
    steps = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal steps
        if frame.f_code.co_filename != acl_index.__file__:
            return None
        steps += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.parametrize("operation", [AclOperation.READ, AclOperation.DELETE])
def test_a_decision_takes_the_same_steps_with_100_000_entries(operation: AclOperation) -> None:
    small, large = AclIndex([*MINE, *make_others(100)]), AclIndex([*MINE, *make_others(100_000)])
    assert len(large) == 100_002
    for host in (HOST, "10.9.9.9"):
        arguments = ("alice", host, operation, ORDERS)
        few, many = (count_steps(partial(index.allows, *arguments)) for index in (small, large))
        assert many == few < 200
    change = MINE[0]._replace(resource_name="new")
    assert count_steps(lambda: large.add(change)) == count_steps(lambda: small.add(change))
    assert count_steps(lambda: large.remove(change)) == count_steps(lambda: small.remove(change))


def test_any_permission_of_a_user_is_found_at_once() -> None:
    index = AclIndex([*MINE, *make_others(100_000)])
    arguments = ("alice", HOST, AclOperation.READ, AclResourceType.TOPIC)
    assert index.allows_any(*arguments)
    assert count_steps(lambda: index.allows_any(*arguments)) < 200


@given(st.lists(ACLS, max_size=12), st.data())
def test_removed_entries_leave_nothing(acls: list[Acl], data: st.DataObject) -> None:
    """Compare an index after changes with a new one of the entries that are left."""
    index = AclIndex()
    for acl in acls:
        index.add(acl)
        index.add(acl)
    removed = data.draw(st.sets(st.sampled_from(acls))) if acls else set()
    for acl in removed:
        index.remove(acl)
        index.remove(acl)
    left = set(acls) - removed
    expected = AclIndex(left)
    assert len(index) == len(expected) == len(left)
    for name in ("a", "ab", "abcd", "c"):
        for operation in (AclOperation.READ, AclOperation.DESCRIBE):
            found, wanted = (
                each.allows("alice", HOST, operation, Resource(AclResourceType.TOPIC, name))
                for each in (index, expected)
            )
            assert found is wanted
    if not left:
        assert not index._patterns


@given(st.lists(ACLS, max_size=8), st.sampled_from([AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE]))
def test_any_permission_is_one_on_some_name(acls: list[Acl], operation: AclOperation) -> None:
    """Compare with decisions about names that lie in all combinations of the patterns."""
    index = AclIndex(acls)
    names = ["a", "ab", "abc", "b", "ax", "abx", "abcx", "bx", "zz"]
    is_found = any(index.allows("alice", HOST, operation, Resource(AclResourceType.TOPIC, name)) for name in names)
    is_any = index.allows_any("alice", HOST, operation, AclResourceType.TOPIC)
    assert is_any or not is_found, "a name is allowed, and no pattern is"
