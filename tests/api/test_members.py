"""Live brokers and their addresses over HTTP: a single broker, and two that gossip."""

import asyncio

import pytest

from raftlog.partitions.gossip import GossipSettings
from tests.cluster_secret import SECRET

WAIT_S = 20.0


async def test_a_single_broker_lists_only_itself(api):
    status, told = await api.get("/v1/cluster/members")
    assert status == 200
    assert told["node_id"] == 1
    assert told["gossip_address"] is None
    (member,) = told["members"]
    assert (member["node_id"], member["state"], member["is_registered"]) == (1, "unknown", True)
    assert member["http_address"] == f"{api.address[0]}:{api.address[1]}"


async def test_the_view_has_brokers_and_the_replicas_of_partitions(api):
    await api.create_topic("orders", 2)
    status, told = await api.get("/v1/cluster_view")
    assert status == 200
    assert told["cluster_id"] == api.broker.cluster_id
    assert [(broker["node_id"], broker["state"]) for broker in told["brokers"]] == [(1, "alive")]
    (topic,) = told["topics"]
    assert topic["name"] == "orders"
    assert topic["partitions"] == [{"partition": each, "replicas": [1], "leader_hint": 1} for each in (0, 1)]


async def test_internal_topics_are_not_in_the_view(api):
    await api.create_topic()
    await api.post("/groups/g/offsets", {"offsets": [{"topic": "t", "partition": 0, "offset": 0}]})
    api.broker.parts.map._picture = None  # whatever was made before does not count
    _, told = await api.get("/v1/cluster_view")
    assert [topic["name"] for topic in told["topics"]] == ["t"]


@pytest.mark.parametrize("known", ["{tag}", 'W/{tag}, "other"', "*"])
async def test_an_unchanged_view_is_answered_with_304(api, known):
    async with api.session.get(f"{api.url}/v1/cluster_view") as first:
        tag = first.headers["ETag"]
    headers = {"If-None-Match": known.format(tag=tag)}
    async with api.session.get(f"{api.url}/v1/cluster_view", headers=headers) as again:
        assert again.status == 304
        assert again.headers["ETag"] == tag
        assert await again.read() == b""


async def test_a_changed_view_has_another_etag(api):
    async with api.session.get(f"{api.url}/v1/cluster_view") as first:
        tag = first.headers["ETag"]
    await api.create_topic("new")
    async with asyncio.timeout(WAIT_S):
        while True:
            async with api.session.get(f"{api.url}/v1/cluster_view", headers={"If-None-Match": tag}) as again:
                if again.status == 200:
                    break
    assert again.headers["ETag"] != tag


async def test_a_gossiping_broker_shows_its_metrics_and_members(start_api):
    api = await start_api({"rpc": ("127.0.0.1", 0), "secret": SECRET, "gossip": GossipSettings(), "rack": "r1"})
    _, told = await api.get("/v1/cluster/members")
    assert told["gossip_address"] == api.broker.parts.gossip.address
    (member,) = told["members"]
    assert (member["state"], member["rack"]) == ("alive", "r1")
    assert member["load"]["replicas"] == 0
    assert member["load"]["disk_free"] > 0
    async with api.session.get(f"{api.url}/metrics") as answer:
        text = await answer.text()
    assert 'raftlog_gossip_members{state="alive"} 1.0' in text
    assert 'raftlog_gossip_refused_total{reason="forged"} 0.0' in text
    assert "raftlog_gossip_awareness 0.0" in text
