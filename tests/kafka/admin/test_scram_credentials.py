"""SCRAM credentials of users over Kafka's protocol (KIP-554)."""

from typing import Any

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.partitions.deadline import deadline_in
from raftlog.security.credentials import ITERATIONS_MAX, ScramMechanism, is_password_of, salted_password
from tests.kafka.admin.conftest import CALLER, Admin

ALTER, DESCRIBE = ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
SALT = b"salt of the client"


def upsertion(name: str, password: str, mechanism: int = 1, iterations: int = 8192) -> dict[str, Any]:
    known = ScramMechanism(mechanism) if mechanism in (1, 2) else ScramMechanism.SHA_256
    salted = salted_password(known, password, SALT, iterations)
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": SALT,
        "salted_password": salted,
    }


async def alter(admin: Admin, upsertions: Any = (), deletions: Any = ()) -> dict[str, int]:
    answer = await admin.call(
        ALTER,
        upsertions=list(upsertions),
        deletions=[{"name": name, "mechanism": mechanism} for name, mechanism in deletions],
    )
    assert all(bool(row.error_message) == bool(row.error_code) for row in answer.results)
    return {row.user: row.error_code for row in answer.results}


async def describe(admin: Admin, *users: str) -> dict[str, Any]:
    answer = await admin.call(DESCRIBE, users=[{"name": name} for name in users] or None)
    assert answer.error_code == 0
    return {
        row.user: row.error_code or {each.mechanism: each.iterations for each in row.credential_infos}
        for row in answer.results
    }


async def test_users_are_created_changed_and_deleted(lone: Admin) -> None:
    users = lone.broker.security.users
    assert await describe(lone) == {}
    assert await alter(lone, [upsertion("alice", "pencil"), upsertion("bob", "rubber", 2, 4096)]) == {
        "alice": 0,
        "bob": 0,
    }
    assert await describe(lone) == {"alice": {1: 8192}, "bob": {2: 4096}}
    credential = users.credential("alice", ScramMechanism.SHA_256)
    assert credential is not None
    assert is_password_of(credential, "pencil")
    assert await alter(lone, [upsertion("alice", "pen", 2)], [("alice", 1)]) == {"alice": 0}
    assert await describe(lone, "alice") == {"alice": {2: 8192}}
    assert await alter(lone, [], [("alice", 2)]) == {"alice": 0}
    assert await describe(lone, "alice", "bob") == {
        "alice": ErrorCode.RESOURCE_NOT_FOUND,
        "bob": {2: 4096},
    }


async def test_users_created_elsewhere_have_both_mechanisms(lone: Admin) -> None:
    await lone.broker.security.users.create("carol", "pencil", caller=CALLER, deadline=deadline_in(10_000))
    assert await describe(lone) == {"carol": {1: 4096, 2: 4096}}


async def test_refused_changes(lone: Admin) -> None:
    unacceptable = {
        "low": upsertion("low", "pencil", iterations=4095),
        "high": upsertion("high", "pencil", iterations=ITERATIONS_MAX + 1),
        "": upsertion("", "pencil"),
        "a:b": upsertion("a:b", "pencil"),
        "salt": upsertion("salt", "pencil") | {"salt": b""},
        "short": upsertion("short", "pencil") | {"salted_password": b"short"},
    }
    found = await alter(lone, unacceptable.values())
    assert found == dict.fromkeys(unacceptable, ErrorCode.UNACCEPTABLE_CREDENTIAL)
    assert await alter(lone, [upsertion("x", "pencil", 3)], [("y", 0)]) == {
        "x": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "y": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    }
    twice = [upsertion("x", "pencil"), upsertion("x", "rubber")]
    assert await alter(lone, [*twice, upsertion("good", "pencil")]) == {
        "x": ErrorCode.DUPLICATE_RESOURCE,
        "good": 0,
    }
    assert await alter(lone, [], [("nobody", 1), ("good", 2)]) == dict.fromkeys(
        ("nobody", "good"), ErrorCode.RESOURCE_NOT_FOUND
    )
    assert await describe(lone, "good", "good") == {"good": ErrorCode.DUPLICATE_RESOURCE}
