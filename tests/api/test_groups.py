"""Consumer groups over HTTP: group members, commits with and without members, resets, v3, deletions, and refusals."""

import asyncio
import base64
from typing import Any

import aiohttp
import pytest

from raftlog.assignors import Subscription, decode_assignment, encode_assignment, encode_subscription
from raftlog.partitions.controller.machine.commands import Addresses
from raftlog.types import TopicPartition

CLUSTER = "/v3/clusters/-"
GROUPS = f"{CLUSTER}/consumer-groups"


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def join_body(topic: str = "t", **more: Any) -> dict[str, Any]:
    metadata = encode_base64(encode_subscription(Subscription((topic,))))
    return {"protocols": [{"name": "range", "metadata": metadata}], "client_id": "app", **more}


def offset_row(offset: int, partition: int = 0, **more: Any) -> dict[str, Any]:
    return {"topic": "t", "partition": partition, "offset": offset, **more}


class Member:
    """One group member that joins and syncs as a client does."""

    def __init__(self, api: Any, group: str = "g", **more: Any) -> None:
        self.api, self.path, self.more = api, f"/groups/{group}", more
        self.me: dict[str, Any] = {}
        self.joined: dict[str, Any] = {}

    async def join(self) -> None:
        known = {"member_id": self.me["member_id"]} if self.me else {}
        status, self.joined = await self.api.post(f"{self.path}/join", join_body(**self.more, **known))
        assert status == 200, self.joined
        self.me = {"member_id": self.joined["member_id"], "generation": self.joined["generation"]}

    async def sync(self, assignments: dict[str, list[int]] | None = None) -> list[int]:
        """Return the member's partitions; the group leader sends the assignments of all members."""
        rows = [
            {
                "member_id": name,
                "assignment": encode_base64(encode_assignment(TopicPartition("t", each) for each in numbers)),
            }
            for name, numbers in (assignments or {}).items()
        ]
        status, synced = await self.api.post(f"{self.path}/sync", {**self.me, "assignments": rows})
        assert status == 200, synced
        found = decode_assignment(base64.b64decode(synced["assignment"])) if synced["assignment"] else None
        return [] if found is None else [place.partition for place in found.partitions]

    async def heartbeat(self, **more: Any) -> tuple[int, Any]:
        return await self.api.post(f"{self.path}/heartbeat", {**self.me, **more})

    async def commit(self, value: int, **more: Any) -> tuple[int, Any]:
        return await self.api.post(f"{self.path}/offsets", {"offsets": [offset_row(value)], **self.me, **more})


@pytest.fixture
async def api(start_api: Any) -> Any:
    found = await start_api()
    await found.create_topic("t", 2)
    return found


@pytest.fixture
async def member(api: Any) -> Member:
    """Join as the only member of a consumer group, with both partitions."""
    one = Member(api)
    await one.join()
    assert await one.sync({one.me["member_id"]: [0, 1]}) == [0, 1]
    return one


async def test_a_leader_assigns_and_a_second_member_takes_over_a_part(api: Any, member: Member) -> None:
    assert member.joined["leader"] == member.me["member_id"]
    (told,) = member.joined["members"]
    assert told["metadata"] == join_body()["protocols"][0]["metadata"]
    assert await member.heartbeat() == (200, {})
    waiting = asyncio.create_task(member.heartbeat(wait_ms=30_000))
    second = Member(api)
    joins = asyncio.create_task(second.join())
    status, body = await waiting
    assert (status, body["error_code"]) == (503, 50304), "it hears of the rebalance at once"
    await asyncio.gather(member.join(), joins)
    assert second.me["generation"] == member.me["generation"]
    assert second.joined["members"] == []
    names = [each["member_id"] for each in member.joined["members"]]
    halves = await asyncio.gather(second.sync(), member.sync({names[0]: [0], names[1]: [1]}))
    assert sorted(halves) == [[0], [1]]


async def test_the_broker_assigns_when_all_members_allow_it(api: Any) -> None:
    one = Member(api, assigned_by="broker")
    await one.join()
    assert (one.joined["leader"], one.joined["members"]) == ("", [])
    assert await one.sync() == [0, 1]


async def test_a_static_leader_that_rejoins_leads_and_keeps_its_assignment(api: Any) -> None:
    one = Member(api, instance_id="here")
    await one.join()
    assert await one.sync({one.me["member_id"]: [1]}) == [1]
    back = Member(api, instance_id="here")
    await back.join()
    mine = back.me["member_id"]
    assert mine != one.me["member_id"]
    assert (back.me["generation"], back.joined["leader"], len(back.joined["members"])) == (1, mine, 1)
    assert await back.sync({mine: [0, 1]}) == [1]


async def test_a_member_that_left_is_unknown(member: Member) -> None:
    leaving = {"members": [{"member_id": member.me["member_id"]}, {"member_id": "nobody"}]}
    status, body = await member.api.post("/groups/g/leave", leaving)
    assert status == 200
    assert [(row["member_id"], row["error_code"]) for row in body["members"]] == [
        (member.me["member_id"], None),
        ("nobody", 40407),
    ]
    status, body = await member.heartbeat()
    assert (status, body["error_code"], body["outcome"]) == (404, 40407, "failed")


async def test_commits_of_members_are_fenced_and_may_lower_an_offset(api: Any, member: Member) -> None:
    for value in (7, 3):
        status, body = await member.commit(value, offsets=[offset_row(value, metadata="note", leader_epoch=1)])
        row = {"topic": "t", "partition": 0, "offset": value, "metadata": "note", "leader_epoch": 1}
        assert (status, body) == (200, {"offsets": [row]})
    for change, code in (
        ({"generation": member.me["generation"] - 1}, 40905),
        ({"member_id": "nobody"}, 40407),
        ({"member_id": None, "generation": None}, 40407),
    ):
        status, body = await member.commit(9, **change)
        assert (body.get("error_code"), body.get("outcome")) == (code, "failed"), change
    _, body = await api.get("/groups/g/offsets")
    assert [row["offset"] for row in body["offsets"]] == [3]


async def test_commits_for_a_deleted_topic_do_not_apply_to_a_new_topic_of_that_name(api: Any) -> None:
    assert (await api.post("/groups/g/offsets", {"offsets": [offset_row(5)]}))[0] == 200
    await api.call("DELETE", f"{CLUSTER}/topics/t")
    status, body = await api.post("/groups/g/offsets", {"offsets": [offset_row(6)]})
    assert (status, body["error_code"]) == (404, 40401)
    await api.create_topic("t")
    assert await api.get("/groups/g/offsets") == (200, {"offsets": []})


async def test_offsets_are_reset_to_offsets_times_and_ends(api: Any) -> None:
    await api.post("/topics/t/partitions/0", {"records": [{"value": number} for number in range(3)]})
    await api.post("/groups/g/offsets", {"offsets": [offset_row(2)]})
    before, path = 2, "/groups/g/offsets/reset"
    resets: list[tuple[Any, int, bool]] = [
        ("earliest", 0, False),
        ("latest", 3, False),
        ({"timestamp": 0}, 0, False),
        ({"timestamp": 1 << 60}, 3, False),
        ({"shift": -1}, 2, False),
        ({"shift": -9}, 0, True),
        ({"offset": 1}, 1, False),
        ({"offset": 99}, 3, True),
    ]
    for to, after, clamped in resets:
        row = {"topic": "t", "partition": 0, "before": before, "after": after, "clamped": clamped}
        assert await api.post(path, {"to": to, "dry_run": True}) == (200, {"offsets": [row], "dry_run": True})
        assert (await api.get("/groups/g/offsets"))[1]["offsets"][0]["offset"] == before
        assert await api.post(path, {"to": to}) == (200, {"offsets": [row], "dry_run": False})
        assert (await api.get("/groups/g/offsets"))[1]["offsets"][0]["offset"] == after
        before = after


async def test_a_reset_works_without_committed_offsets(api: Any) -> None:
    await api.post("/groups/g/offsets", {"offsets": [offset_row(0)]})
    body = {"to": "latest", "topics": ["t"], "partitions": [{"topic": "t", "partition": 1}]}
    status, done = await api.post("/groups/g/offsets/reset", body)
    assert (status, [row["before"] for row in done["offsets"]]) == (200, [0, None])


async def test_resets_and_deletions_need_an_empty_group(api: Any, member: Member) -> None:
    await member.commit(1)
    for method, path, body in (
        ("POST", "/groups/g/offsets/reset", {"to": "earliest"}),
        ("DELETE", "/groups/g/offsets?topic=t", None),
        ("DELETE", f"{GROUPS}/g", None),
    ):
        status, answer = await api.call(method, path, body)
        assert (status, answer["error_code"]) == (409, 40908), path


async def test_groups_and_their_lag_are_shown_in_v3(api: Any, member: Member) -> None:
    await api.post("/topics/t/partitions/0", {"records": [{"value": number} for number in range(5)]})
    await api.post("/topics/t/partitions/1", {"records": [{"value": 0}]})
    await member.commit(2)
    cluster = f"{api.url}/v3/clusters/{api.broker.cluster_id}"
    url, name = f"{cluster}/consumer-groups/g", f"crn:///kafka={api.broker.cluster_id}/consumer-group=g"
    base = {"cluster_id": api.broker.cluster_id, "consumer_group_id": "g"}
    me = member.me["member_id"]
    group = {
        "kind": "KafkaConsumerGroup",
        "metadata": {"self": url, "resource_name": name},
        **base,
        "is_simple": False,
        "partition_assignor": "range",
        "state": "STABLE",
        "type": "CLASSIC",
        "is_mixed_consumer_group": False,
        "generation": member.me["generation"],
        "coordinator": {"related": f"{cluster}/brokers/1"},
        "consumers": {"related": f"{url}/consumers"},
        "lag_summary": {"related": f"{url}/lag-summary"},
    }
    assert await api.get(f"{GROUPS}/g") == (200, group)
    assert (await api.get(GROUPS))[1]["data"] == [group]
    _, consumers = await api.get(f"{GROUPS}/g/consumers")
    (consumer,) = consumers["data"]
    assert (consumer["consumer_id"], consumer["client_id"], consumer["client_host"]) == (me, "app", "127.0.0.1")
    assert await api.get(f"{GROUPS}/g/consumers/{me}") == (200, consumer)
    _, assignments = await api.get(f"{GROUPS}/g/consumers/{me}/assignments")
    assert [(row["topic_name"], row["partition_id"]) for row in assignments["data"]] == [("t", 0), ("t", 1)]
    one = await api.get(f"{GROUPS}/g/consumers/{me}/assignments/t/partitions/1")
    assert one == (200, assignments["data"][1])
    _, lags = await api.get(f"{GROUPS}/g/lags")
    assert [(row["current_offset"], row["log_end_offset"], row["lag"]) for row in lags["data"]] == [
        (2, 5, 3),
        (-1, 1, 1),
    ]
    assert await api.get(f"{GROUPS}/g/lags/t/partitions/0") == (200, lags["data"][0])
    _, summary = await api.get(f"{GROUPS}/g/lag-summary")
    assert (summary["max_lag"], summary["total_lag"], summary["max_lag_consumer_id"]) == (3, 4, me)
    assert summary["max_lag_partition"] == {"related": f"{cluster}/topics/t/partitions/0"}


async def test_a_group_with_commits_only_is_simple_and_can_be_deleted(api: Any) -> None:
    await api.post("/groups/a b/offsets", {"offsets": [offset_row(0)]})
    _, groups = await api.get(GROUPS)
    assert [(row["consumer_group_id"], row["is_simple"], row["state"]) for row in groups["data"]] == [
        ("a b", True, "EMPTY")
    ]
    assert groups["data"][0]["metadata"]["self"].endswith("/consumer-groups/a%20b")
    assert await api.call("DELETE", f"{GROUPS}/a%20b") == (204, None)
    assert await api.get("/groups") == (200, {"groups": []})
    status, body = await api.call("DELETE", f"{GROUPS}/a%20b")
    assert (status, body["error_code"]) == (404, 40405)


async def test_offsets_of_one_topic_are_deleted(api: Any) -> None:
    await api.create_topic("other")
    await api.post(
        "/groups/g/offsets", {"offsets": [offset_row(0), offset_row(0, 1), offset_row(0) | {"topic": "other"}]}
    )
    assert await api.call("DELETE", "/groups/g/offsets?topic=t") == (204, None)
    assert [row["topic"] for row in (await api.get("/groups/g/offsets"))[1]["offsets"]] == ["other"]


async def test_unknown_groups_return_404(api: Any) -> None:
    for path in ("", "/consumers", "/consumers/x", "/lags", "/lag-summary", "/lags/t/partitions/0"):
        status, body = await api.get(f"{GROUPS}/none{path}")
        assert (status, body["error_code"]) == (404, 40405), path


async def test_unknown_members_and_partitions_of_a_group_return_404(api: Any, member: Member) -> None:
    for path, code in (("consumers/x", 404), ("lags/t/partitions/9", 40403), ("lags/x/partitions/0", 40403)):
        status, body = await api.get(f"{GROUPS}/g/{path}")
        assert (status, body["error_code"]) == (404, code), path
    assert (await api.get("/v3/clusters/other/consumer-groups"))[0] == 404


JOIN, SYNC, BEAT, LEAVE = "/groups/g/join", "/groups/g/sync", "/groups/g/heartbeat", "/groups/g/leave"
OFFSETS, RESET = "/groups/g/offsets", "/groups/g/offsets/reset"
ME = {"member_id": "m", "generation": 1}


REFUSED: list[tuple[str, Any, int]] = [
    (JOIN, {}, 422),
    (JOIN, {"protocols": []}, 422),
    (JOIN, {"protocols": [{"name": "range"}]}, 422),
    (JOIN, {"protocols": [{"name": "range", "metadata": "no base64!"}]}, 422),
    (JOIN, {"protocols": [{"name": "range", "metadata": "YQ"}]}, 422),
    (JOIN, join_body(member_id=5), 422),
    (JOIN, join_body(session_timeout_ms="long"), 422),
    (JOIN, join_body(session_timeout_ms=0), 400),
    (JOIN, join_body(session_timeout_ms=1), 400),
    (JOIN, join_body(session_timeout_ms=(1 << 31) - 1), 400),
    (JOIN, join_body(rebalance_timeout_ms=-1), 400),
    (JOIN, join_body(assigned_by="nobody"), 400),
    (JOIN, join_body(member_id="nobody"), 404),
    (JOIN, {"protocols": [{"name": "fair", "metadata": "YQ=="}], "assigned_by": "broker"}, 400),
    (SYNC, {}, 422),
    (SYNC, {"member_id": "m"}, 422),
    (SYNC, {**ME, "assignments": [{"member_id": "m", "assignment": "%"}]}, 422),
    (SYNC, ME, 404),
    (BEAT, {**ME, "wait_ms": 30_001}, 400),
    (BEAT, {**ME, "wait_ms": -1}, 400),
    (BEAT, {**ME, "wait_ms": True}, 422),
    (BEAT, {**ME, "generation": -1}, 400),
    (BEAT, {**ME, "instance_id": 5}, 422),
    (BEAT, ME, 404),
    (BEAT, {**ME, "member_id": "m" * 40_000}, 400),
    (LEAVE, {"members": [{"member_id": "m"}] * 10_001}, 400),
    (LEAVE, {"members": []}, 422),
    (LEAVE, {"members": ["m"]}, 422),
    (OFFSETS, {"offsets": [offset_row(1)], "member_id": "m"}, 422),
    (OFFSETS, {"offsets": [offset_row(1)], "generation": 3}, 422),
    (OFFSETS, {"offsets": [offset_row(1, metadata="x" * 5_000)]}, 400),
    (OFFSETS, {"offsets": [offset_row(1, metadata=5)]}, 422),
    (OFFSETS, {"offsets": [offset_row(1 << 63)]}, 400),
    (OFFSETS, {"offsets": [offset_row(1)], **ME}, 404),
    (RESET, {}, 422),
    (RESET, {"to": "begin"}, 422),
    (RESET, {"to": {}}, 422),
    (RESET, {"to": {"shift": 1, "offset": 1}}, 422),
    (RESET, {"to": {"shift": None}}, 422),
    (RESET, {"to": {"days": 1}}, 400),
    (RESET, {"to": {"offset": -1}}, 400),
    (RESET, {"to": "earliest", "topics": ["t"], "dryrun": True}, 400),
    (RESET, {"to": "earliest", "dry_run": 1}, 422),
    (RESET, {"to": "earliest", "topics": "t"}, 422),
    (RESET, {"to": "earliest", "topics": ["x"]}, 404),
    (RESET, {"to": "earliest", "partitions": [{"topic": "t", "partition": 7}]}, 404),
    ("/groups/%00/join", join_body(), 400),
    (f"/groups/{'x' * 256}/join", join_body(), 400),
    ("/groups/a%2Fb/offsets", {"offsets": [offset_row(1)]}, 400),
    (f"{JOIN}?timeout=0", join_body(), 400),
    (f"{RESET}?dry_run=true", {"to": "earliest"}, 400),
]


async def test_invalid_group_requests_are_refused(api: Any) -> None:
    for path, body, status in REFUSED:
        found, answer = await api.post(path, body)
        assert (found, answer["outcome"]) == (status, "failed"), (path[:60], str(body)[:100], answer)
    assert await api.get("/groups") == (200, {"groups": []}), "nothing was done"


async def test_a_join_without_a_rebalance_in_time_fails(api: Any, member: Member) -> None:
    status, body = await api.post("/groups/g/join?timeout=50", join_body())
    assert (status, body["error_code"], body["outcome"]) == (503, 50304, "failed")
    await member.join()
    assert len(member.joined["members"]) == 1, "a client without its id is no member"


async def test_a_join_of_a_disconnected_client_leaves_no_member(api: Any, member: Member, monkeypatch: Any) -> None:
    join, has_come, has_ended = api.broker.groups.join, asyncio.Event(), asyncio.Event()

    async def join_and_note(*args: Any, **more: Any) -> Any:
        has_come.set()
        try:
            return await join(*args, **more)
        finally:
            has_ended.set()

    monkeypatch.setattr(api.broker.groups, "join", join_and_note)
    async with aiohttp.ClientSession() as session:
        asking = asyncio.ensure_future(session.post(f"{api.url}/groups/g/join", json=join_body()))
        await has_come.wait()
        asking.cancel()
    await has_ended.wait()
    await member.join()
    assert len(member.joined["members"]) == 1


async def test_waiting_requests_are_answered_when_the_server_stops(api: Any, member: Member, monkeypatch: Any) -> None:
    heartbeat, has_come = api.broker.groups.heartbeat, asyncio.Event()

    async def note_heartbeat(*args: Any, **more: Any) -> None:
        has_come.set()
        await heartbeat(*args, **more)

    monkeypatch.setattr(api.broker.groups, "heartbeat", note_heartbeat)
    waiting = asyncio.create_task(member.heartbeat(wait_ms=4_000))
    await has_come.wait()
    await api.server.stop(1.0)
    status, body = await waiting
    assert (status, body["outcome"]) == (503, "failed")
    assert "another" in body["message"]


async def test_answers_name_the_coordinator(api: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(api.broker.groups, "leader_of", lambda group: 7)
    monkeypatch.setattr(api.broker, "addresses_of", lambda node: Addresses("g:1", "", "") if node == 7 else None)
    await api.post("/groups/g/offsets", {"offsets": [offset_row(0)]})
    for method, path, body in (
        ("GET", "/groups/g/offsets", None),
        ("POST", "/groups/g/offsets", {"offsets": [offset_row(0)]}),
        ("GET", f"{GROUPS}/g", None),
        ("GET", f"{GROUPS}/g/lags", None),
        ("POST", "/groups/g/join", join_body()),
    ):
        async with api.session.request(method, api.url + path, json=body) as response:
            assert (response.status, response.headers["X-Raftlog-Leader"]) == (200, "g:1"), path


async def test_producer_ids_are_never_given_twice(api: Any) -> None:
    ids = [(await api.post("/producers"))[1] for _ in range(3)]
    assert len({each["producer_id"] for each in ids}) == 3
    assert {each["producer_epoch"] for each in ids} == {0}


async def test_deleted_records_are_out_of_range(api: Any) -> None:
    await api.post("/topics/t/partitions/0", {"records": [{"value": number} for number in range(5)]})
    path = "/topics/t/partitions/0/records"
    assert await api.call("DELETE", f"{path}?before=3") == (200, {"log_start_offset": 3})
    assert await api.call("DELETE", f"{path}?before=1") == (200, {"log_start_offset": 3})
    status, body = await api.get(f"{path}?offset=2")
    assert (status, body["beginning_offset"], body["end_offset"]) == (400, 3, 5)
    assert [row["offset"] for row in (await api.get(f"{path}?offset=3"))[1]] == [3, 4]


async def test_invalid_deletions_are_refused(api: Any) -> None:
    await api.post("/groups/g/offsets", {"offsets": [offset_row(0)]})
    for path, status in (
        ("t/partitions/0/records", 400),
        ("t/partitions/0/records?before=-1", 400),
        ("t/partitions/0/records?before=9", 400),
        ("t/partitions/0/records?before=0&offset=1", 400),
        ("t/partitions/9/records?before=0", 404),
        ("x/partitions/0/records?before=0", 404),
        ("__consumer_offsets/partitions/0/records?before=0", 400),
    ):
        found, body = await api.call("DELETE", f"/topics/{path}")
        assert (found, body["outcome"]) == (status, "failed"), path


async def test_lag_leaves_out_deleted_partitions_of_an_assignment(api: Any, member: Member) -> None:
    await member.sync({member.me["member_id"]: [0, 77]})
    status, lags = await api.get(f"{GROUPS}/g/lags")
    assert status == 200, lags
    assert 77 not in {row["partition_id"] for row in lags["data"]}
    assert (await api.get(f"{GROUPS}/g/lag-summary"))[0] == 200
