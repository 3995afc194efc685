"""Session of the console, and the refusal of changes that it requests."""

import time

import pytest

from raftlog.api.http.console.change_policy import CONSOLE_HEADER
from raftlog.partitions.caller import ANONYMOUS

CONSOLE = {CONSOLE_HEADER: "1"}
TOPIC = {"topic_name": "new", "partitions_count": 1}


async def test_a_session_has_the_user_the_broker_and_the_clock(api) -> None:
    before = int(time.time() * 1000)
    status, session = await api.get("/console/api/session", headers=CONSOLE)
    assert status == 200
    assert session["principal"] == f"User:{ANONYMOUS}"
    assert session["user"] is None
    assert (session["node_id"], session["cluster_id"]) == (api.broker.node_id, api.broker.cluster_id)
    assert before - 1 <= session["time_ms"] <= int(time.time() * 1000) + 1
    assert (session["is_ready"], session["writes_allowed"], session["has_authorization"]) == (True, False, False)
    assert all(session["may"].values())


async def test_a_session_shows_what_the_user_may_not(start_api) -> None:
    api = await start_api({"authorization": "acl"})
    _, session = await api.get("/console/api/session")
    assert session["has_authorization"] is True
    assert not any(session["may"].values())


async def test_a_session_is_answered_while_the_broker_is_not_ready(api) -> None:
    api.broker.is_ready = False
    status, session = await api.get("/console/api/session")
    assert (status, session["is_ready"]) == (200, False)
    api.broker.is_ready = True


@pytest.mark.parametrize(
    "headers", [CONSOLE, {"Referer": "http://127.0.0.1:8082/console/"}, {"Referer": "http://x/console?#/topics"}]
)
async def test_changes_by_the_console_are_refused(api, headers: dict[str, str]) -> None:
    for method, path, body in (
        ("POST", "/v3/clusters/-/topics", TOPIC),
        ("DELETE", "/v3/clusters/-/topics/t", None),
        ("PUT", "/v1/brokers/1/maintenance", None),
        ("PATCH", "/v3/clusters/-/topics/t", {"partitions_count": 2}),
    ):
        status, error = await api.call(method, path, body, headers=headers)
        assert (status, error["error_code"], error["outcome"]) == (403, 40307, "failed"), path
    assert api.broker.topics() == []
    assert (await api.get("/topics", headers=headers))[0] == 200


@pytest.mark.parametrize("headers", [{}, {"Referer": "http://x/consoles"}, {"Referer": "http://[x/"}, {"Referer": ""}])
async def test_changes_by_other_clients_are_not_affected(api, headers: dict[str, str]) -> None:
    assert (await api.post("/v3/clusters/-/topics", TOPIC, headers=headers))[0] == 201


async def test_changes_by_the_console_are_allowed_by_a_flag(start_api) -> None:
    api = await start_api(console_writes=True)
    assert (await api.get("/console/api/session"))[1]["writes_allowed"] is True
    assert (await api.post("/v3/clusters/-/topics", TOPIC, headers=CONSOLE))[0] == 201
