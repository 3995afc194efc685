"""Permissions over HTTP: every route is guarded, and answers show only what the caller may describe."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from functools import partial
from typing import Any

import pytest

from raftlog.api.http.openapi.operation import describe_operation
from raftlog.api.http.server.endpoint import HttpEndpoint
from raftlog.api.http.server.permissions import IN_REQUEST, LISTED, route_permissions
from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.partitions.consumers.instance import Instance
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.facade_permissions import GUARDED
from raftlog.security.permissions import (
    CLUSTER_NAME,
    USER_PREFIX,
    Acl,
    AclEffect,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
)
from tests.api.conftest import Api
from tests.api.described import ENDPOINTS
from tests.security.facade import record_calls
from tests.waiting import until, until_async

ME = Caller(ANONYMOUS, "", "127.0.0.1", "http")
ARGUMENTS = {
    "cluster": "-",
    "broker": "1",
    "group": "secret-group",
    "instance": "i",
    "consumer": "c",
    "partition": "0",
    "namespace": "kafka",
    "user": "u",
    "name": "raftlog",
    "transactional_id": "secret-tx",
    "folder": "vendor",
    "file": "preact.mjs",
}
BODIES: dict[str, Any] = {"POST /v3/clusters/{cluster}/topics": {"topic_name": "new"}}
UNGUARDED = [
    "GET /v1/status/ready",
    "GET /console",
    "GET /console/{file}",
    "GET /console/{folder}/{file}",
    "GET /console/api/session",
]
"""Readiness, files of the console without data, and the name and the permissions of the caller itself."""
DENIED = {AclResourceType.TOPIC: 40301, AclResourceType.GROUP: 40304, AclResourceType.CLUSTER: 40305} | {
    AclResourceType.TRANSACTIONAL_ID: 40306
}


@pytest.fixture
async def guarded(start_api: Any) -> Api:
    """Server that checks permissions, with the topics `open` and `secret`, and a group with offsets in both."""
    api: Api = await start_api({"authorization": "acl"})
    for name in ("open", "secret"):
        await api.create_topic(name)
    return api


async def allow(
    api: Api,
    operation: AclOperation,
    type_: AclResourceType = AclResourceType.CLUSTER,
    name: str = CLUSTER_NAME,
    effect: AclEffect = AclEffect.ALLOW,
) -> None:
    acl = Acl(type_, PatternType.LITERAL, name, USER_PREFIX + ANONYMOUS, "*", operation, effect)
    await api.broker.security.acls.create([acl], caller=ME, deadline=deadline_in(10_000))


def path_of(endpoint: HttpEndpoint, topic: str) -> str:
    """Return a path of the endpoint with values for its arguments."""
    segments = endpoint.pattern.split("/")
    values = {**ARGUMENTS, "topic": topic}
    return "/".join(values[each[1:-1]] if each.startswith("{") else each for each in segments)


def test_routes_without_a_permission_are_known() -> None:
    assert [each.route for each in ENDPOINTS if not each.permissions] == UNGUARDED


def test_a_permission_is_on_a_parameter_of_the_path_or_checked_by_the_handler() -> None:
    for each in ENDPOINTS:
        checked = route_permissions(each.permissions, each.pattern)
        left = [permission for permission in each.permissions if permission.place in (IN_REQUEST, LISTED)]
        assert len(checked) + len(left) == len(each.permissions), each.route


def test_every_guarded_operation_documents_its_refusal() -> None:
    for each in ENDPOINTS:
        assert ("403" in describe_operation(each)["responses"]) == bool(each.permissions), each.route


@pytest.mark.parametrize("topic", ["secret", "missing"])
async def test_every_route_refuses_a_caller_without_permissions(
    guarded: Api, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """403 for a topic or group whether or not it exists; listings and the cluster view are without content.

    No request reaches a method of the façade that needs a permission."""
    wrong, called = [], record_calls(monkeypatch)
    for each in ENDPOINTS:
        if each.route in UNGUARDED:
            continue
        async with guarded.session.request(
            each.method, guarded.url + path_of(each, topic), json=BODIES.get(each.route)
        ) as response:
            text = await response.text()
            if all(permission.place == LISTED for permission in each.permissions):
                is_right = response.status == 200 and "open" not in text and "secret" not in text
            else:
                first = next(permission for permission in each.permissions if permission.place != LISTED)
                is_right = response.status == 403 and f'"error_code":{DENIED[first.type]}' in text
            if not is_right:
                wrong.append((each.route, response.status, text[:200]))
    assert not wrong
    assert not called & set(GUARDED)
    assert "Broker.topics" in called
    assert (await guarded.get("/v1/status/ready"))[0] == 200


async def test_a_superuser_may_do_everything(start_api: Any) -> None:
    api = await start_api({"authorization": "acl", "superusers": (ANONYMOUS,)})
    for each in ENDPOINTS:
        if each.method == "GET" and "consumers/{group}/instances" not in each.pattern:
            async with api.session.get(api.url + path_of(each, "t"), headers={"Accept": "*/*"}) as response:
                assert response.status != 403, each.route


async def test_lists_contain_only_what_the_caller_may_describe(guarded: Api) -> None:
    for topic in ("open", "secret"):
        assert (await guarded.broker.produce_records(topic, 0, [], deadline=deadline_in(5_000))) == []
    await allow(guarded, AclOperation.READ, AclResourceType.TOPIC, "open")
    await allow(guarded, AclOperation.DESCRIBE)
    assert await guarded.get("/topics") == (200, ["open"])
    status, described = await guarded.get("/v3/clusters/-/topics")
    assert (status, [each["topic_name"] for each in described["data"]]) == (200, ["open"])
    for path in ("/v1/cluster_view", "/metrics", "/v1/partitions", "/v1/cluster/partitions"):
        async with guarded.session.get(guarded.url + path) as response:
            text = await response.text()
            assert response.status == 200
            assert "open" in text, path
            assert "secret" not in text, path
    assert (await guarded.get("/v1/cluster/partitions?topic=secret"))[0] == 403
    async with guarded.session.get(guarded.url + "/v1/cluster_view") as response:
        tag = response.headers["ETag"]
    assert (await guarded.get("/v1/cluster_view", headers={"If-None-Match": tag}))[0] == 304
    await allow(guarded, AclOperation.ALL, AclResourceType.TOPIC, "secret")
    status, view = await guarded.get("/v1/cluster_view", headers={"If-None-Match": tag})
    assert (status, [each["name"] for each in view["topics"]]) == (200, ["open", "secret"])


async def test_groups_offsets_and_lags_are_limited_to_visible_ones(guarded: Api) -> None:
    offsets = [{"topic": topic, "partition": 0, "offset": 0} for topic in ("open", "secret")]
    await allow(guarded, AclOperation.ALL, AclResourceType.GROUP, "g")
    await allow(guarded, AclOperation.READ, AclResourceType.TOPIC, "open")
    await allow(guarded, AclOperation.READ, AclResourceType.TOPIC, "secret")
    assert (await guarded.post("/groups/g/offsets", {"offsets": offsets}))[0] == 200
    await allow(guarded, AclOperation.ALL, AclResourceType.TOPIC, "secret", AclEffect.DENY)
    assert await guarded.get("/groups") == (200, {"groups": ["g"]})
    assert [each["topic"] for each in (await guarded.get("/groups/g/offsets"))[1]["offsets"]] == ["open"]
    status, lags = await guarded.get("/v3/clusters/-/consumer-groups/g/lags")
    assert (status, [each["topic_name"] for each in lags["data"]]) == (200, ["open"])
    assert (await guarded.get("/v3/clusters/-/consumer-groups/g/lags/secret/partitions/0"))[0] == 403
    status, refused = await guarded.post("/groups/g/offsets/reset", {"to": "earliest"})
    assert (status, refused["error_code"]) == (403, 40301), "all topics with offsets, one of them denied"
    assert (await guarded.post("/groups/g/offsets/reset", {"to": "earliest", "topics": ["open"]}))[0] == 200
    assert (await guarded.call("DELETE", "/groups/g/offsets?topic=secret"))[0] == 403
    await allow(guarded, AclOperation.DESCRIBE, AclResourceType.GROUP, "g", AclEffect.DENY)
    assert await guarded.get("/groups") == (200, {"groups": []})


PLACE = {"topic": "secret", "partition": 0}
INSTANCE = "/consumers/g/instances/i"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", f"{INSTANCE}/subscription", {"topics": ["open", "secret"]}),
        ("POST", f"{INSTANCE}/assignments", {"partitions": [PLACE]}),
        ("POST", f"{INSTANCE}/positions", {"offsets": [{**PLACE, "offset": 0}]}),
        ("POST", f"{INSTANCE}/positions/beginning", {"partitions": [PLACE]}),
        ("POST", f"{INSTANCE}/positions/end", {"partitions": [PLACE]}),
        ("POST", f"{INSTANCE}/offsets", {"offsets": [{**PLACE, "offset": 0}]}),
        ("GET", f"{INSTANCE}/offsets?topic=secret&partition=0", None),
        ("POST", "/groups/g/offsets", {"offsets": [{**PLACE, "offset": 0}]}),
        ("POST", "/groups/g/offsets/reset", {"to": "latest", "partitions": [PLACE]}),
        ("DELETE", "/groups/g/offsets?topic=missing", None),
        ("POST", "/v3/clusters/-/topics", {"topic_name": "other"}),
    ],
)
async def test_topics_in_bodies_are_checked(guarded: Api, method: str, path: str, body: Any) -> None:
    await allow(guarded, AclOperation.ALL, AclResourceType.GROUP, "g")
    await allow(guarded, AclOperation.ALL, AclResourceType.TOPIC, "open")
    assert (await guarded.post("/consumers/g", {"name": "i"}))[0] == 200
    status, refused = await guarded.call(method, path, body)
    assert (status, refused["error_code"]) == (403, 40301)


async def test_a_poll_returns_no_records_after_the_permission_ended(guarded: Api) -> None:
    await allow(guarded, AclOperation.ALL, AclResourceType.GROUP, "g")
    await allow(guarded, AclOperation.ALL, AclResourceType.TOPIC, "secret")
    assert (await guarded.post("/consumers/g", {"name": "i", "auto.offset.reset": "earliest"}))[0] == 200
    assert (await guarded.post(f"{INSTANCE}/assignments", {"partitions": [PLACE]}))[0] == 204
    assert (await guarded.post("/topics/secret", {"records": [{"value": 1}]}))[0] == 200
    await allow(guarded, AclOperation.READ, AclResourceType.TOPIC, "secret", AclEffect.DENY)
    status, refused = await guarded.get(f"{INSTANCE}/records")
    assert (status, refused["error_code"]) == (403, 40301)


async def test_an_instance_by_pattern_reads_only_topics_that_its_user_may_read(guarded: Api) -> None:
    await allow(guarded, AclOperation.ALL, AclResourceType.GROUP, "g")
    await allow(guarded, AclOperation.ALL, AclResourceType.TOPIC, "open")
    assert (await guarded.post("/consumers/g", {"name": "i", "auto.offset.reset": "earliest"}))[0] == 200
    assert (await guarded.post(f"{INSTANCE}/subscription", {"topic_pattern": ".*"}))[0] == 204
    assert (await guarded.get(f"{INSTANCE}/records?timeout=1000"))[0] == 200
    find = partial(guarded.broker.consumers.subscription, "g", "i")
    assert (await find(deadline=deadline_in(5_000))).topics == ("open",)
    await allow(guarded, AclOperation.READ, AclResourceType.TOPIC, "secret")
    await until_async(lambda: is_subscribed(find, ("open", "secret")))
    await allow(guarded, AclOperation.READ, AclResourceType.TOPIC, "open", AclEffect.DENY)
    await until_async(lambda: is_subscribed(find, ("secret",)))
    assert (await guarded.get(f"{INSTANCE}/records?timeout=1000"))[0] == 200


async def test_a_poll_by_pattern_is_empty_until_a_lost_topic_is_given_up(
    guarded: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await allow(guarded, AclOperation.ALL, AclResourceType.GROUP, "g")
    await allow(guarded, AclOperation.ALL, AclResourceType.TOPIC, "open")
    assert (await guarded.post("/topics/open", {"records": [{"value": 1}]}))[0] == 200
    assert (await guarded.post("/consumers/g", {"name": "i", "auto.offset.reset": "earliest"}))[0] == 200
    assert (await guarded.post(f"{INSTANCE}/subscription", {"topic_pattern": ".*"}))[0] == 204
    await until_async(lambda: is_assigned(guarded, "open"))
    monkeypatch.setattr(Instance, "topics_changed", change_nothing)
    await allow(guarded, AclOperation.READ, AclResourceType.TOPIC, "open", AclEffect.DENY)
    assert await guarded.get(f"{INSTANCE}/records?timeout=100") == (200, [])


async def is_assigned(api: Api, topic: str) -> bool:
    _, found = await api.get(f"{INSTANCE}/assignments")
    return {each["topic"] for each in found["partitions"]} == {topic}


async def change_nothing(_: Instance) -> None:
    """Stand for a match of the pattern that is still to come."""


async def is_subscribed(find: Any, topics: tuple[str, ...]) -> bool:
    return bool((await find(deadline=deadline_in(5_000))).topics == topics)


async def test_a_tail_ends_when_the_permission_ends(guarded: Api) -> None:
    await allow(guarded, AclOperation.ALL, AclResourceType.TOPIC, "open")
    path = "/topics/open/partitions/0/records?offset=0&follow=true&heartbeat=50"
    async with guarded.session.get(guarded.url + path, headers={"Accept": "application/x-ndjson"}) as response:
        assert response.status == 200
        assert await response.content.readline() == b"\n"
        await allow(guarded, AclOperation.READ, AclResourceType.TOPIC, "open", AclEffect.DENY)
        last = b"".join([line async for line in response.content])
    assert b'"error_code":40301' in last


async def is_waiting(api: Api, count: int = 1) -> bool:
    return len(api.broker.security.authorizer._watches) >= count


async def revoke_while(
    api: Api, request: Coroutine[Any, Any, tuple[int, Any]], type_: AclResourceType, name: str
) -> Any:
    """Deny READ once a request waits; return its answer, which has to come long before its timeout of 20 s."""
    waiting = asyncio.create_task(request)
    await until_async(partial(is_waiting, api))
    assert not waiting.done()
    await allow(api, AclOperation.READ, type_, name, AclEffect.DENY)
    return await asyncio.wait_for(waiting, 10)


async def test_a_long_poll_ends_when_the_permission_ends(guarded: Api) -> None:
    await allow(guarded, AclOperation.ALL, AclResourceType.TOPIC, "open")
    request = guarded.get("/topics/open/partitions/0/records?offset=0&timeout=20000")
    status, refused = await revoke_while(guarded, request, AclResourceType.TOPIC, "open")
    assert (status, refused["error_code"]) == (403, 40301)


@pytest.mark.parametrize(
    ("type_", "name", "code"), [(AclResourceType.TOPIC, "open", 40301), (AclResourceType.GROUP, "g", 40304)]
)
async def test_a_poll_that_waits_ends_when_a_permission_ends(
    guarded: Api, type_: AclResourceType, name: str, code: int
) -> None:
    await allow(guarded, AclOperation.ALL, AclResourceType.GROUP, "g")
    await allow(guarded, AclOperation.ALL, AclResourceType.TOPIC, "open")
    settings = {"name": "i", "auto.offset.reset": "earliest", "consumer.request.timeout.ms": 20_000}
    assert (await guarded.post("/consumers/g", settings))[0] == 200
    place = {"topic": "open", "partition": 0}
    assert (await guarded.post(f"{INSTANCE}/assignments", {"partitions": [place]}))[0] == 204
    status, refused = await revoke_while(guarded, guarded.get(f"{INSTANCE}/records"), type_, name)
    assert (status, refused["error_code"]) == (403, code)


async def test_a_body_that_arrives_late_is_not_stored_after_the_permission_ended(guarded: Api) -> None:
    await allow(guarded, AclOperation.ALL, AclResourceType.TOPIC, "open")
    for content_type, parts in (
        ("application/json", (b'{"records": [{"value": 1},', b'{"value": 2}]}')),
        ("application/octet-stream", (b"one", b"two")),
    ):
        denied = asyncio.Event()

        async def send(denied: asyncio.Event = denied, parts: tuple[bytes, ...] = parts) -> AsyncIterator[bytes]:
            yield parts[0]
            await denied.wait()
            yield parts[1]

        headers = {"Content-Type": content_type}
        path = f"{guarded.url}/topics/open"
        connections = guarded.server._connections
        before = connections.requests_count
        sending = asyncio.create_task(guarded.session.post(path, data=send(), headers=headers))
        await until(lambda connections=connections, before=before: connections.requests_count > before)
        assert not sending.done()
        await allow(guarded, AclOperation.WRITE, AclResourceType.TOPIC, "open", AclEffect.DENY)
        denied.set()
        async with await sending as response:
            assert response.status == 403
        deny = AclFilter(resource_name="open", effect=AclEffect.DENY)
        await guarded.broker.security.acls.delete([deny], caller=ME, deadline=deadline_in(10_000))
    assert (await guarded.get("/topics/open/partitions/0/offsets"))[1]["end_offset"] == 0


async def test_settings_of_a_topic_need_their_own_permission(guarded: Api) -> None:
    await allow(guarded, AclOperation.DESCRIBE, AclResourceType.TOPIC, "open")
    assert (await guarded.get("/topics/open"))[1]["configs"] == {}
    assert (await guarded.get("/v3/clusters/-/topics/open/configs"))[0] == 403
    await allow(guarded, AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, "open")
    assert (await guarded.get("/topics/open"))[1]["configs"]


async def test_creation_and_producer_ids_have_two_permissions_each(guarded: Api) -> None:
    await allow(guarded, AclOperation.CREATE, AclResourceType.TOPIC, "new")
    assert (await guarded.post("/v3/clusters/-/topics", {"topic_name": "new"}))[0] == 201
    await allow(guarded, AclOperation.CREATE)
    assert (await guarded.post("/v3/clusters/-/topics", {"topic_name": "other"}))[0] == 201
    assert (await guarded.post("/producers"))[0] == 403
    await allow(guarded, AclOperation.WRITE, AclResourceType.TOPIC, "any")
    assert (await guarded.post("/producers"))[0] == 200
