"""Topics in the APIs v2 and v3, group offsets, status and metrics."""

import pytest

CLUSTER = "/v3/clusters/-"


async def test_a_topic_is_created_described_altered_and_deleted(api):
    request = {
        "topic_name": "orders",
        "partitions_count": 3,
        "replication_factor": 1,
        "configs": [{"name": "retention.ms", "value": "60000"}],
    }
    status, made = await api.post(f"{CLUSTER}/topics", request)
    assert status == 201
    assert (made["kind"], made["topic_name"], made["partitions_count"], made["replication_factor"]) == (
        "KafkaTopic",
        "orders",
        3,
        1,
    )
    assert (made["is_internal"], made["cluster_id"]) == (False, api.broker.cluster_id)
    assert made["metadata"]["self"] == f"{api.url}/v3/clusters/{api.broker.cluster_id}/topics/orders"
    assert await api.get(f"{CLUSTER}/topics/orders") == (200, made)
    status, listed = await api.get(f"/v3/clusters/{api.broker.cluster_id}/topics")
    assert (listed["kind"], listed["data"]) == ("KafkaTopicList", [made])
    _, config = await api.get(f"{CLUSTER}/topics/orders/configs/retention.ms")
    assert (config["value"], config["is_default"], config["source"]) == ("60000", False, "DYNAMIC_TOPIC_CONFIG")
    changes = [{"name": "retention.ms", "operation": "DELETE"}, {"name": "flush.messages", "value": "10"}]
    assert await api.post(f"{CLUSTER}/topics/orders/configs:alter", {"data": changes}) == (204, None)
    _, configs = await api.get(f"{CLUSTER}/topics/orders/configs")
    values = {config["name"]: (config["value"], config["is_default"]) for config in configs["data"]}
    assert values["retention.ms"] == ("604800000", True)
    assert values["flush.messages"] == ("10", False)
    assert await api.call("DELETE", f"{CLUSTER}/topics/orders") == (204, None)
    assert (await api.get(f"{CLUSTER}/topics/orders"))[0] == 404
    assert await api.get("/topics") == (200, [])


async def test_partitions_are_added_to_a_topic(api):
    await api.create_topic("orders", 2)
    at = f"{CLUSTER}/topics/orders"
    _, before = await api.get(at)
    status, planned = await api.call("PATCH", at, {"partitions_count": 5, "validate_only": True})
    assert (status, planned) == (200, {**before, "partitions_count": 5})
    assert await api.get(at) == (200, before)
    assert await api.call("PATCH", at, {"partitions_count": 5}) == (200, planned)
    assert await api.get(at) == (200, planned)
    _, partitions = await api.get(f"{at}/partitions")
    assert [row["partition_id"] for row in partitions["data"]] == [0, 1, 2, 3, 4]
    assert all(row["leader"] is not None for row in partitions["data"])
    status, refused = await api.call("PATCH", at, {"partitions_count": 5})
    assert (status, refused["error_code"], refused["outcome"]) == (400, 40002, "failed")
    assert refused["message"] == "topic 'orders' has 5 partitions; partitions can only be added"
    assert (await api.call("PATCH", f"{CLUSTER}/topics/none", {"partitions_count": 5}))[0] == 404
    for wrong in ({}, {"partitions_count": "6"}, {"partitions_count": 6, "partition_count": 6}):
        assert (await api.call("PATCH", at, wrong))[0] in (400, 422)
    assert await api.get(at) == (200, planned)


@pytest.mark.parametrize(
    "request_",
    [
        {"topic_name": "taken"},
        {"topic_name": "a b"},
        {"topic_name": "t", "partitions_count": 0},
        {"topic_name": "t", "replication_factor": 3},
        {"topic_name": "t", "configs": [{"name": "no.such", "value": "1"}]},
        {"topic_name": "t", "configs": [{"name": "segment.bytes", "value": "5"}]},
        {"topic_name": "__offsets"},
        {"topic_name": "t", "replicas_assignments": {"0": [1]}},
    ],
)
async def test_invalid_topics_are_refused(api, request_):
    await api.create_topic("taken")
    status, body = await api.post(f"{CLUSTER}/topics", request_)
    assert (status, body["error_code"], body["outcome"]) == (400, 40002, "failed")
    assert await api.get("/topics") == (200, ["taken"])


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"topic_name": 5},
        {"topic_name": "t", "partitions_count": "3"},
        {"topic_name": "t", "configs": "x"},
        {"topic_name": "t", "configs": [{"value": "1"}]},
    ],
)
async def test_malformed_creations_are_refused(api, request_):
    status, body = await api.post(f"{CLUSTER}/topics", request_)
    assert (status, body["error_code"]) == (422, 42203)


async def test_validate_only_creates_nothing(api):
    request = {"topic_name": "t", "partitions_count": 5, "validate_only": True}
    status, body = await api.post(f"{CLUSTER}/topics", request)
    assert (status, body["partitions_count"]) == (200, 5)
    assert await api.get("/topics") == (200, [])


async def test_v2_shows_topics_and_partitions(api):
    await api.create_topic("a.b-c_1", 2)
    partition = {
        "partition": 1,
        "leader": 1,
        "replicas": [{"broker": 1, "leader": True, "in_sync": True}],
        "leader_epoch": 1,
        "high_watermark": 0,
        "log_start_offset": 0,
    }
    _, topic = await api.get("/topics/a.b-c_1")
    assert (topic["name"], len(topic["partitions"])) == ("a.b-c_1", 2)
    assert topic["configs"]["retention.ms"] == "604800000"
    assert (await api.get("/topics/a.b-c_1/partitions"))[1][1] == partition
    assert await api.get("/topics/a.b-c_1/partitions/1") == (200, partition)
    assert await api.get("/brokers") == (200, {"brokers": [1]})


async def test_v3_shows_the_cluster_and_partitions(api):
    await api.create_topic("t", 2)
    _, clusters = await api.get("/v3/clusters")
    assert [cluster["cluster_id"] for cluster in clusters["data"]] == [api.broker.cluster_id]
    assert (await api.get(CLUSTER))[1]["kind"] == "KafkaCluster"
    _, partitions = await api.get(f"{CLUSTER}/topics/t/partitions")
    assert [partition["partition_id"] for partition in partitions["data"]] == [0, 1]
    assert (await api.get(f"{CLUSTER}/topics/t/partitions/1"))[1] == partitions["data"][1]


async def test_percent_encoded_names_are_decoded(api):
    await api.create_topic("a.b")
    assert (await api.get("/topics/a%2Eb"))[0] == 200


async def test_group_offsets_without_members_only_rise(api):
    await api.create_topic("t", 2)
    first = {"offsets": [{"topic": "t", "partition": 0, "offset": 7}, {"topic": "t", "partition": 1, "offset": 3}]}
    told = {"offsets": [row | {"metadata": "", "leader_epoch": None} for row in first["offsets"]]}
    assert await api.post("/groups/g/offsets", first) == (200, told)
    later = {"offsets": [{"topic": "t", "partition": 0, "offset": 5}, {"topic": "t", "partition": 1, "offset": 4}]}
    status, body = await api.post("/groups/g/offsets", later)
    assert status == 200
    assert [entry["offset"] for entry in body["offsets"]] == [7, 4]
    assert await api.get("/groups/g/offsets") == (200, body)
    assert await api.get("/groups/other/offsets") == (200, {"offsets": []})
    assert await api.get("/groups") == (200, {"groups": ["g"]})


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"offsets": []}, 422),
        ({}, 422),
        ({"offsets": [5]}, 422),
        ({"offsets": [{"topic": "t", "partition": 0}]}, 422),
        ({"offsets": [{"topic": "t", "partition": 0, "offset": "5"}]}, 422),
        ({"offsets": [{"topic": "t", "partition": True, "offset": 5}]}, 422),
        ({"offsets": [{"topic": "x", "partition": 0, "offset": 5}]}, 404),
        ({"offsets": [{"topic": "t", "partition": 4, "offset": 5}]}, 404),
        ({"offsets": [{"topic": "t", "partition": 0, "offset": -5}]}, 400),
    ],
)
async def test_invalid_commits_are_refused(api, body, status):
    await api.create_topic("t", 1)
    found, answer = await api.post("/groups/g/offsets", body)
    assert (found, answer["outcome"]) == (status, "failed")
    assert await api.get("/groups") == (200, {"groups": []})


async def test_status_and_metrics_are_served(api):
    await api.create_topic()
    await api.post("/topics/t", {"records": [{"value": 1}, {"value": 2}]})
    status, ready = await api.get("/v1/status/ready")
    assert (status, ready["status"]) == (200, "ready")
    _, (broker,) = await api.get("/v1/brokers")
    assert (broker["node_id"], broker["membership_status"]) == (1, "active")
    assert broker["disk_space"][0]["free"] > 0
    async with api.session.get(api.url + "/metrics") as response:
        text = await response.text()
    assert "raftlog_appended_records_total 2.0" in text
    assert "raftlog_partitions 1.0" in text
    assert 'raftlog_http_responses_total{status="200"}' in text
