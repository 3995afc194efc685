"""Lists of the console: topics, partitions, groups, brokers, users; filtered, paged, and without what is hidden."""

from typing import Any

import pytest

from raftlog.api.http.console.health_actions import ACTIONS, UNKNOWN, action_for
from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups.results import OffsetCommit
from raftlog.security.permissions import USER_PREFIX, Acl, AclEffect, AclOperation, AclResourceType, PatternType
from raftlog.types import Offset, TopicPartition

ME = Caller(ANONYMOUS, "", "127.0.0.1", "http")
JSON = {"Content-Type": "application/json"}


async def get(api: Any, path: str) -> Any:
    status, found = await api.get(f"/console/api/{path}")
    assert status == 200, found
    return found


async def commit(api: Any, group: str, topic: str, offset: int, partition: int = 0) -> None:
    offsets = {TopicPartition(topic, partition): OffsetCommit(Offset(offset))}
    await api.broker.groups.commit(group, offsets, deadline=deadline_in(10_000))


async def produce(api: Any, topic: str, count: int, partition: int = 0) -> None:
    body = {"records": [{"value": number} for number in range(count)]}
    assert (await api.post(f"/topics/{topic}/partitions/{partition}", body, headers=JSON))[0] == 200


async def test_topics_are_paged_and_have_records_and_sizes(api) -> None:
    for name in ("alpha", "beta", "Gamma"):
        await api.create_topic(name, 2)
    await produce(api, "beta", 3)
    await produce(api, "beta", 2, partition=1)
    first = await get(api, "topics?limit=2")
    assert [each["name"] for each in first["topics"]] == ["Gamma", "alpha"]
    assert (first["total"], first["matching"]) == (3, 3)
    second = await get(api, f"topics?limit=2&after={first['next']}")
    [beta] = second["topics"]
    assert second["next"] is None
    assert (beta["name"], beta["partitions"], beta["records"], beta["is_records_exact"]) == ("beta", 2, 5, True)
    assert beta["bytes"] > 0
    assert (beta["leaderless"], beta["under_replicated"], beta["problem"]) == (0, 0, None)
    found = await get(api, "topics?filter=AM&sort=-name")
    assert ([each["name"] for each in found["topics"]], found["total"], found["matching"]) == (["Gamma"], 3, 1)


async def test_topics_are_sorted_by_partitions(api) -> None:
    for name, count in (("a", 2), ("b", 3), ("c", 2), ("d", 1)):
        await api.create_topic(name, count)
    names, after = [], ""
    while after is not None:
        page = await get(api, f"topics?sort=-partitions&limit=1&after={after}")
        names += [each["name"] for each in page["topics"]]
        after = page["next"]
    assert names == ["b", "c", "a", "d"]


async def test_internal_topics_and_compacted_ones_are_marked(api) -> None:
    await api.create_topic("compacted", cleanup_policy="compact")
    await commit(api, "g", "compacted", 0)
    assert [each["name"] for each in (await get(api, "topics"))["topics"]] == ["compacted"]
    both = (await get(api, "topics?internal=true"))["topics"]
    assert [(each["name"], each["is_internal"]) for each in both] == [
        ("__consumer_offsets", True),
        ("compacted", False),
    ]
    assert both[1]["is_records_exact"] is False


async def test_a_topic_has_its_settings(api) -> None:
    await api.create_topic("t", 2, retention_ms="1234")
    found = await get(api, "topics/t")
    configs = {each["name"]: each for each in found["configs"]}
    assert configs["retention.ms"] == {"name": "retention.ms", "value": "1234", "is_default": False}
    assert configs["cleanup.policy"]["is_default"] is True
    assert (await api.get("/console/api/topics/none"))[0] == 404


async def test_partitions_are_paged_and_only_those_with_problems_on_request(api) -> None:
    await api.create_topic("t", 5)
    await produce(api, "t", 4, partition=3)
    first = await get(api, "topics/t/partitions?limit=3")
    assert [each["partition"] for each in first["partitions"]] == [0, 1, 2]
    second = await get(api, f"topics/t/partitions?limit=3&after={first['next']}")
    assert [each["partition"] for each in second["partitions"]] == [3, 4]
    assert (second["next"], second["total"]) == (None, 5)
    [three] = [each for each in second["partitions"] if each["partition"] == 3]
    assert (three["leader_id"], three["records"], three["high_watermark"], three["log_start_offset"]) == (1, 4, 4, 0)
    assert three["bytes"] > 0
    assert three["replicas"][0]["in_sync"] is True
    problems = await get(api, "topics/t/partitions?only=problems")
    assert (problems["partitions"], problems["total"], problems["matching"]) == ([], 5, 0)


async def test_groups_have_their_lag_and_members(api) -> None:
    await api.create_topic("t", 2)
    await produce(api, "t", 5)
    await commit(api, "readers", "t", 2)
    await commit(api, "others", "t", 5)
    found = await get(api, "groups")
    assert [(each["group"], each["state"], each["lag"]) for each in found["groups"]] == [
        ("others", "Empty", 0),
        ("readers", "Empty", 3),
    ]
    assert [each["group"] for each in (await get(api, "groups?filter=READ"))["groups"]] == ["readers"]
    assert (await get(api, "groups?state=Stable"))["groups"] == []
    one = await get(api, "groups/readers")
    assert (one["group"]["lag"], one["member_count"], one["members"], one["is_simple"]) == (3, 0, [], True)
    lags = await get(api, "groups/readers/lags")
    [row] = lags["lags"]
    assert (row["topic"], row["partition"], row["current_offset"], row["log_end_offset"], row["lag"]) == (
        "t",
        0,
        2,
        5,
        3,
    )
    assert (lags["lag"], lags["total"], lags["next"]) == (3, 1, None)
    assert (await get(api, "groups/readers/lags?filter=x"))["lags"] == []
    assert (await api.get("/console/api/groups/none"))[0] == 404


async def test_the_preview_of_a_reset_changes_nothing(api) -> None:
    await api.create_topic("t")
    await produce(api, "t", 5)
    await commit(api, "g", "t", 4)
    for to, after in (("earliest", 0), ("latest", 5), ("shift:-1", 3), ("offset:99", 5), ("timestamp:0", 0)):
        found = await get(api, f"groups/g/reset?to={to}")
        assert found["dry_run"] is True
        assert [(each["before"], each["after"]) for each in found["offsets"]] == [(4, after)], to
    assert (await api.get("/groups/g/offsets"))[1]["offsets"][0]["offset"] == 4
    for to in ("", "never", "shift:", "shift:x", "offset:-1", "timestamp", "offset:1:2"):
        assert (await api.get(f"/console/api/groups/g/reset?to={to}"))[0] == 400, to


async def test_brokers_moves_health_users_and_transactions_are_listed(api) -> None:
    assert (await api.get("/v1/cluster/partition_balancer/status"))[0] == 200  # waits for the balancer
    found = await get(api, "brokers")
    [broker] = found["brokers"]
    assert (broker["node_id"], broker["is_alive"], broker["is_controller"]) == (1, True, True)
    assert found["balancer"]["mode"]
    assert (await get(api, "moves"))["moves"] == []
    health = await get(api, "health")
    assert (health["health"]["is_healthy"], health["reasons"]) == (True, [])
    await api.broker.security.users.create("ann", "secret password", caller=ME, deadline=deadline_in(10_000))
    users = await get(api, "users?filter=AN")
    assert [each["name"] for each in users["users"]] == ["ann"]
    acl = Acl(
        AclResourceType.TOPIC,
        PatternType.LITERAL,
        "t",
        f"{USER_PREFIX}ann",
        "*",
        AclOperation.READ,
        AclEffect.ALLOW,
    )
    await api.broker.security.acls.create([acl], caller=ME, deadline=deadline_in(10_000))
    acls = await get(api, "acls?filter=ann")
    assert [each["operation"] for each in acls["acls"]] == ["READ"]
    assert (await get(api, "acls?filter=bob"))["matching"] == 0
    assert (await get(api, "transactions"))["transactions"] == []


@pytest.mark.parametrize(
    "path",
    [
        "topics?sort=size",
        "topics?sort=--name",
        "topics?limit=1000",
        "topics?after=x",
        "topics?other=1",
        "groups?state=Dead",
        "groups?sort=lag",
        "transactions?state=x",
        "moves?node=x",
        "topics/t/partitions?only=some",
        "users?limit=-1",
        "health?timeout=0",
    ],
)
async def test_wrong_parameters_are_refused(api, path: str) -> None:
    await api.create_topic("t")
    status, error = await api.get(f"/console/api/{path}")
    assert (status, error["error_code"]) == (400, 40002)


async def test_lists_are_without_what_the_caller_may_not_describe(start_api) -> None:
    api = await start_api({"authorization": "acl"})
    for name in ("open", "secret"):
        await api.create_topic(name)
        await commit(api, f"{name}-group", name, 0)
    for type_, name in ((AclResourceType.TOPIC, "open"), (AclResourceType.GROUP, "open-group")):
        acl = Acl(
            type_, PatternType.LITERAL, name, USER_PREFIX + ANONYMOUS, "*", AclOperation.DESCRIBE, AclEffect.ALLOW
        )
        await api.broker.security.acls.create([acl], caller=ME, deadline=deadline_in(10_000))
    topics = await get(api, "topics?internal=true")
    assert ([each["name"] for each in topics["topics"]], topics["total"]) == (["open"], 1)
    groups = await get(api, "groups")
    assert ([each["group"] for each in groups["groups"]], groups["total"]) == (["open-group"], 1)
    assert (await get(api, "topics/open"))["configs"] is None
    for path in ("topics/secret", "topics/none", "groups/secret-group", "brokers", "health", "users"):
        assert (await api.get(f"/console/api/{path}"))[0] == 403, path


async def test_nothing_is_listed_while_the_broker_is_not_ready(api) -> None:
    api.broker.is_ready = False
    for path in ("topics", "health", "brokers"):
        status, error = await api.get(f"/console/api/{path}")
        assert (status, error["outcome"]) == (503, "failed"), path
    api.broker.is_ready = True


def test_every_reason_of_an_unhealthy_cluster_has_a_next_step() -> None:
    from tests.documents.pages import ROOT

    section = (ROOT / "docs" / "ERRORS.md").read_text().partition("## Health reasons")[2].partition("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("- `") and "a note, not a reason" not in line:
            for part in line.partition(": ")[0].split("`")[1::2]:
                assert action_for(f"node 1: {part} x") != UNKNOWN, part
    assert all(action.endswith(".") for action in ACTIONS.values())
