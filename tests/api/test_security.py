"""Users, entries of access control and quotas over HTTP, against a real broker."""

from typing import Any

import pytest

from raftlog.security.credentials import ScramMechanism, is_password_of
from tests.api.conftest import Api

USERS = "/v1/security/users"
ACLS = "/v1/security/acls"
QUOTAS = "/v1/security/quotas"
READ = {"resource_type": "TOPIC", "resource_name": "orders", "principal": "User:a", "operation": "READ"}
ALLOWED = {**READ, "pattern_type": "LITERAL", "host": "*", "permission": "ALLOW"}


async def test_users_are_created_listed_changed_and_deleted(api: Api) -> None:
    assert await api.post(USERS, {"name": "alice", "password": "secret-1", "is_superuser": True}) == (204, None)
    status, refused = await api.post(USERS, {"name": "alice", "password": "secret-1"})
    assert (status, refused["error_code"]) == (409, 40912)
    mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert await api.get(USERS) == (200, [{"name": "alice", "mechanisms": mechanisms, "is_superuser": True}])
    assert await api.call("PUT", f"{USERS}/alice/password", {"password": "secret-2"}) == (204, None)
    credential = api.broker.security.users.credential("alice", ScramMechanism.SHA_512)
    assert credential is not None
    assert is_password_of(credential, "secret-2")
    assert await api.call("DELETE", f"{USERS}/alice") == (204, None)
    for method, path, body in (("DELETE", f"{USERS}/alice", None), ("PUT", f"{USERS}/b/password", {"password": "x"})):
        status, refused = await api.call(method, path, body)
        assert (status, refused["error_code"]) == (404, 40408)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "a:b", "password": "p"}, 400),
        ({"name": "", "password": "p"}, 400),
        ({"name": "a" * 257, "password": "p"}, 400),
        ({"name": "a", "password": ""}, 400),
        ({"name": "a", "password": "secret" * 200}, 400),
        ({"name": "a"}, 422),
        ({"name": "a", "password": "secret", "more": 1}, 400),
        ({"name": "a", "password": ["secret"]}, 422),
    ],
)
async def test_refusals_of_users_do_not_show_the_password(api: Api, body: dict[str, Any], status: int) -> None:
    found, refused = await api.post(USERS, body)
    assert found == status
    assert "secret" not in refused["message"]


async def test_entries_are_created_selected_and_deleted(api: Api) -> None:
    deny = {**ALLOWED, "pattern_type": "PREFIXED", "resource_name": "or", "permission": "DENY", "host": "10.0.0.1"}
    assert await api.post(ACLS, {"acls": [{**READ, "permission": "ALLOW"}, deny]}) == (204, None)
    assert await api.post(ACLS, {"acls": [deny]}) == (204, None), "existing ones stay"
    assert await api.get(ACLS) == (200, [ALLOWED, deny])
    assert await api.get(f"{ACLS}?pattern_type=MATCH&resource_type=TOPIC&resource_name=orders") == (
        200,
        [ALLOWED, deny],
    )
    assert await api.get(f"{ACLS}?permission=DENY&host=10.0.0.1&operation=READ") == (200, [deny])
    assert await api.get(f"{ACLS}?principal=User:b") == (200, [])
    assert await api.call("DELETE", f"{ACLS}?permission=DENY&dry_run=true") == (200, [deny])
    assert await api.call("DELETE", f"{ACLS}?permission=DENY") == (200, [deny])
    assert await api.get(ACLS) == (200, [ALLOWED])
    for path in (ACLS, f"{ACLS}?timeout=1000", f"{ACLS}?permission=MAYBE"):
        status, _ = await api.call("DELETE", path)
        assert status == 400, "a deletion names its entries"
    status, refused = await api.post(ACLS, {"acls": [{**ALLOWED, "operation": "IDEMPOTENT_WRITE"}]})
    assert (status, refused["error_code"]) == (400, 40002)
    assert "TOPIC has no operation IDEMPOTENT_WRITE" in refused["message"]
    bodies: list[tuple[list[Any], int]] = [([], 422), ([{**ALLOWED, "operation": "EAT"}], 400), ([READ], 422)]
    for wrong, code in bodies:
        status, _ = await api.post(ACLS, {"acls": wrong})
        assert status == code


async def test_quotas_are_set_listed_and_removed(api: Api) -> None:
    body: dict[str, Any] = {"entity": {"user": "alice"}, "upsert": {"producer_byte_rate": 1000}}
    assert await api.call("PUT", f"{QUOTAS}?dry_run=true", body) == (204, None)
    assert await api.get(QUOTAS) == (200, [])
    assert await api.call("PUT", QUOTAS, body) == (204, None)
    assert await api.get(QUOTAS) == (200, [{"entity": {"user": "alice"}, "quotas": {"producer_byte_rate": 1000.0}}])
    for wrong in ({"upsert": {}}, {"upsert": {"wrong": 1}}, {"remove": ["producer_byte_rate"]}, {"entity": {}}):
        status, _ = await api.call("PUT", QUOTAS, {**body, **wrong})
        assert status == 400
    for mistyped in ({"upsert": {"producer_byte_rate": "1"}}, {"entity": {"user": 1}}, {"upsert": [1]}):
        status, _ = await api.call("PUT", QUOTAS, {**body, **mistyped})
        assert status == 422
    assert await api.call("PUT", QUOTAS, {"entity": {"user": "alice"}, "remove": ["producer_byte_rate"]}) == (
        204,
        None,
    )
    assert await api.get(QUOTAS) == (200, [])
