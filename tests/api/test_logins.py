"""Logins over HTTP: Basic and Bearer, refusals, readiness without a login, and users that change."""

import asyncio
import time
from typing import Any

import aiohttp
import pytest

from raftlog.api.http.server import connections
from raftlog.partitions.caller import Caller
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.security import authenticator as authenticator_module
from raftlog.partitions.security.bearer_keys import BearerKeys
from raftlog.security.bearer import BearerSettings, BearerVerifier
from raftlog.security.sasl import MECHANISMS
from tests.api.conftest import Api
from tests.api.described import ENDPOINTS
from tests.security.tokens import AUDIENCE, ISSUER, TokenIssuer
from tests.waiting import until

ROOT = Caller("root", "", "", "")
ISSUING = TokenIssuer()


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": aiohttp.encode_basic_auth(user, password)}


ALICE = basic("alice", "pencil")


@pytest.fixture
async def closed(start_api: Any) -> Api:
    """Server that requires logins, with the user alice."""
    api: Api = await start_api(mechanisms=MECHANISMS)
    await put_user(api, "alice", "pencil")
    return api


async def put_user(api: Api, name: str, password: str) -> None:
    await api.broker.security.users.create(name, password, caller=ROOT, deadline=deadline_in(10_000))


def bearer(seconds: float = 60, **more: Any) -> dict[str, str]:
    return {"Authorization": "Bearer " + ISSUING.token(expires_at=time.time() + seconds, **more)}


def accept_tokens(api: Api) -> None:
    verifier = BearerVerifier(BearerSettings("keys", ISSUER, AUDIENCE), lambda source: ISSUING.key_set())
    api.broker.security.authenticator.bearer = BearerKeys(verifier)


async def test_basic(closed: Api) -> None:
    await closed.create_topic()
    assert await closed.get("/topics", headers=ALICE) == (200, ["t"])
    status, body = await closed.get("/topics", headers=basic("alice", "wrong"))
    assert (status, body["error_code"], body["outcome"]) == (401, 40101, "failed")
    assert (await closed.get("/topics", headers=basic("nobody", "pencil")))[1] == body


async def test_names_and_passwords_beyond_ascii(closed: Api) -> None:
    await put_user(closed, "jürgen", "pass:wörd")
    headers = basic("jürgen", "pass:wörd")
    assert (await closed.get("/topics", headers=headers))[0] == 200


@pytest.mark.parametrize(
    "header",
    ["Basic", "Basic !", "Basic YWxpY2U=", "Basic OnBlbmNpbA==", "Basic /w==", "Digest x", "Bearer", "x" * 999],
)
async def test_malformed_headers(closed: Api, header: str) -> None:
    assert (await closed.get("/topics", headers={"Authorization": header}))[0] == 401


async def test_every_endpoint_except_readiness_requires_a_login(closed: Api) -> None:
    for endpoint in ENDPOINTS:
        path = endpoint.pattern.replace("{", "").replace("}", "")
        async with closed.session.request(endpoint.method, closed.url + path) as response:
            body = await response.read()
            if endpoint.pattern == "/v1/status/ready":
                assert (response.status, body) == (200, b"")
            else:
                assert response.status == 401, endpoint.route
                assert response.headers.getall("WWW-Authenticate") == ['Basic realm="raftlog", charset="UTF-8"']
    assert (await closed.get("/does/not/exist"))[0] == 401


async def test_readiness_with_a_login(closed: Api) -> None:
    assert (await closed.get("/v1/status/ready", headers=ALICE))[1]["status"] == "ready"
    assert (await closed.get("/v1/status/ready", headers=basic("alice", "wrong")))[0] == 401


async def test_tokens(closed: Api) -> None:
    assert (await closed.get("/topics", headers=bearer()))[0] == 401
    accept_tokens(closed)
    assert (await closed.get("/topics", headers=bearer()))[0] == 200
    async with closed.session.get(closed.url + "/topics", headers=bearer(-1)) as response:
        assert response.status == 401
        assert "expired" in (await response.json())["message"]
        assert response.headers.getall("WWW-Authenticate")[1] == 'Bearer realm="raftlog"'
    assert (await closed.get("/topics", headers=bearer(aud="other")))[0] == 401


async def test_only_the_chosen_mechanisms(start_api: Any) -> None:
    api = await start_api(mechanisms=["OAUTHBEARER"])
    await put_user(api, "alice", "pencil")
    accept_tokens(api)
    assert (await api.get("/topics", headers=ALICE))[0] == 401
    assert (await api.get("/topics", headers=bearer()))[0] == 200


async def test_a_password_is_checked_once_for_a_connection(closed: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await closed.get("/topics", headers=ALICE)
    authenticator = closed.broker.security.authenticator

    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("checked again")

    monkeypatch.setattr(authenticator, "check_password", fail)
    for _ in range(3):
        assert (await closed.get("/topics", headers=ALICE))[0] == 200


async def test_the_caller_follows_the_header(closed: Api) -> None:
    async def find_principal(headers: dict[str, str] | None) -> str:
        seen: list[str] = []
        users = closed.broker.security.users
        create = users.create

        async def note(*args: Any, caller: Caller, **more: Any) -> None:
            seen.append(caller.principal)
            await create(*args, caller=caller, **more)

        users.create = note
        try:
            body = {"name": f"new-{time.monotonic_ns()}", "password": "pencil"}
            status, _ = await closed.post("/v1/security/users", body, headers=headers)
        finally:
            users.create = create
        return seen[0] if seen else str(status)

    await put_user(closed, "bob", "rubber")
    assert await find_principal(ALICE) == "alice"
    assert await find_principal(basic("bob", "rubber")) == "bob"
    assert await find_principal(None) == "401"
    assert await find_principal(ALICE) == "alice"


async def test_a_changed_password_counts_at_once(closed: Api) -> None:
    assert (await closed.get("/topics", headers=ALICE))[0] == 200
    users = closed.broker.security.users
    await users.set_password("alice", "rubber", caller=ROOT, deadline=deadline_in(10_000))
    assert (await closed.get("/topics", headers=ALICE))[0] == 401
    assert (await closed.get("/topics", headers=basic("alice", "rubber")))[0] == 200


async def test_a_tail_of_a_deleted_user_ends(start_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LOGIN_CHECK_S", 0.05)
    api: Api = await start_api(mechanisms=MECHANISMS)
    await put_user(api, "alice", "pencil")
    await api.create_topic()
    url = f"{api.url}/topics/t/partitions/0/records?offset=0&timeout=30000&min_bytes=1"
    waiting = asyncio.ensure_future(api.session.get(url, headers=ALICE))
    replica = api.broker.parts.topics.find("t").partition(0).replica
    await until(lambda: replica.waiting_count == 1)
    assert not waiting.done()
    await api.broker.security.users.delete("alice", caller=ROOT, deadline=deadline_in(10_000))
    async with asyncio.timeout(10):
        answer = await waiting
    assert answer.status == 401, "the client connects again, and is refused"


async def test_an_expired_token_ends_its_connection(closed: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    accept_tokens(closed)
    header = bearer(60)
    assert (await closed.get("/topics", headers=header))[0] == 200
    monkeypatch.setattr(authenticator_module.Authenticator, "now_s", lambda self: time.time() + 61)
    assert (await closed.get("/topics", headers=header))[0] == 401


async def test_without_a_required_login_headers_are_ignored(start_api: Any) -> None:
    api = await start_api()
    assert (await api.get("/topics", headers=basic("a", "b")))[0] == 200


async def test_a_broker_that_starts_answers_unavailable(closed: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(closed.broker), "is_ready", property(lambda self: False), raising=False)
    status, body = await closed.get("/topics", headers=basic("new", "pencil"))
    assert (status, body["error_code"]) == (503, 50302)
