"""Consumer instances over HTTP, with the API of Confluent REST Proxy v2, against one broker."""

import asyncio
import base64

import aiohttp
import pytest

from raftlog.partitions.deadline import deadline_in
from raftlog.records import Compression, NewRecord, build_batch
from tests.waiting import until, until_async

BINARY, JSON = "application/vnd.kafka.binary.v2+json", "application/vnd.kafka.json.v2+json"


class Consumer:
    """One consumer instance, addressed by its URL."""

    def __init__(self, api, group, name):
        self.api, self.path = api, f"/consumers/{group}/instances/{name}"

    async def __call__(self, method, what="", body=None, **options):
        return await self.api.call(method, self.path + what, body, **options)

    async def call_for_204(self, method, what="", body=None, **options):
        status, answer = await self(method, what, body, **options)
        assert (status, answer) == (204, None), answer

    async def subscribe(self, *topics):
        await self.call_for_204("POST", "/subscription", {"topics": list(topics)})

    async def assign(self, *partitions, topic="t"):
        places = [{"topic": topic, "partition": each} for each in partitions]
        await self.call_for_204("POST", "/assignments", {"partitions": places})

    async def fetch_assignment(self):
        _, answer = await self("GET", "/assignments")
        return [(each["topic"], each["partition"]) for each in answer["partitions"]]

    async def poll(self, query="", **options):
        status, answer = await self("GET", "/records" + query, **options)
        assert status == 200, answer
        return answer

    async def poll_values(self, count, query=""):
        """Poll until at least `count` values have arrived; return them."""
        found = []
        while len(found) < count:
            found += [record["value"] for record in await self.poll(query)]
        return found

    async def fetch_committed(self):
        _, answer = await self("GET", "/offsets")
        return {(each["topic"], each["partition"]): each["offset"] for each in answer["offsets"]}


@pytest.fixture
async def api(start_api):
    return await start_api({"group_initial_rebalance_delay_ms": 0, "offsets_partitions": 2})


@pytest.fixture
def consumer(api):
    """Return a function that creates a consumer instance; `_` in names of settings stands for a dot."""

    async def create(name="c", group="g", **settings):
        settings = {"format": "json", "auto.offset.reset": "earliest"} | {
            key.replace("_", "."): value for key, value in settings.items()
        }
        status, answer = await api.post(f"/consumers/{group}", {"name": name, **settings})
        assert status == 200, answer
        return Consumer(api, group, name)

    return create


async def produce(api, *values, topic="t", partition=0):
    records = [{"value": value} for value in values]
    status, answer = await api.post(f"/topics/{topic}/partitions/{partition}", {"records": records})
    assert status == 200, answer


def status_and_code(answer):
    status, body = answer
    return status, body["error_code"]


# instances


async def test_an_instance_is_created_with_its_name_or_a_generated_one(api):
    status, answer = await api.post("/consumers/g", {"name": "c 1"})
    assert (status, answer) == (200, {"instance_id": "c 1", "base_uri": f"{api.url}/consumers/g/instances/c%201"})
    assert status_and_code(await api.post("/consumers/g", {"name": "c 1"})) == (409, 40902)
    _, first = await api.post("/consumers/g")
    _, second = await api.post("/consumers/g", {})
    assert first["instance_id"].startswith("rest-consumer-1-")
    assert first["instance_id"] != second["instance_id"]
    async with api.session.get(first["base_uri"] + "/assignments") as response:
        assert await response.json() == {"partitions": []}


async def test_invalid_settings_are_refused(api):
    for body, says in (
        ({"name": "c", "max.poll.records": 5}, "it can have name, format"),
        ({"format": "avro"}, "it can be binary, json"),
        ({"name": 5}, "it is a string"),
        ({"name": "a/b"}, "no slash"),
    ):
        status, answer = await api.post("/consumers/g", body)
        assert (status, answer["error_code"]) == (422, 42204)
        assert says in answer["message"]


async def test_requests_to_an_unknown_instance_return_404(api, consumer):
    for method, what, body in (
        ("GET", "/records", None),
        ("DELETE", "", None),
        ("POST", "/subscription", {"topics": ["t"]}),
        ("GET", "/subscription", None),
        ("DELETE", "/subscription", None),
        ("POST", "/assignments", {"partitions": []}),
        ("POST", "/positions/end", {"partitions": [{"topic": "t", "partition": 0}]}),
        ("POST", "/offsets", None),
        ("GET", "/offsets", None),
    ):
        assert status_and_code(await api.call(method, "/consumers/g/instances/none" + what, body)) == (404, 40403)
    known = await consumer()
    assert status_and_code(await Consumer(api, "other", "c")("GET", "/records")) == (404, 40403)
    await known.call_for_204("DELETE")
    assert status_and_code(await known("DELETE")) == (404, 40403)
    assert status_and_code(await known("GET", "/records")) == (404, 40403)


async def test_instances_beyond_the_limit_are_refused(start_api):
    api = await start_api({"consumer_instances_max": 2})
    for name in ("a", "b"):
        assert (await api.post("/consumers/g", {"name": name}))[0] == 200
    assert status_and_code(await api.post("/consumers/g", {"name": "c"})) == (429, 42901)
    assert (await api.call("DELETE", "/consumers/g/instances/a"))[0] == 204
    assert (await api.post("/consumers/g", {"name": "c"}))[0] == 200


async def test_an_unused_instance_expires_and_leaves_its_group(start_api):
    api = await start_api({"consumer_instance_timeout_ms": 60, "group_initial_rebalance_delay_ms": 0})
    await api.create_topic("t")
    await api.post("/consumers/g", {"name": "c"})
    found = Consumer(api, "g", "c")
    await found.subscribe("t")
    await until(lambda: len(api.broker.consumers) == 0)
    assert status_and_code(await found("GET", "/records")) == (404, 40403)

    async def is_empty():
        return (await api.broker.groups.describe("g", deadline=deadline_in(5_000))).state == "Empty"

    await until_async(is_empty)


# subscriptions and assignments


async def test_a_subscription_has_topics_or_a_pattern_or_an_assignment(api, consumer):
    await api.create_topic("t")
    found = await consumer()
    assert await found("GET", "/subscription") == (200, {"topics": [], "topic_pattern": None})
    await found.subscribe("t", "later", "t")
    assert await found("GET", "/subscription") == (200, {"topics": ["later", "t"], "topic_pattern": None})
    await found.subscribe("t")
    assert status_and_code(await found("POST", "/subscription", {"topic_pattern": "t.*"})) == (409, 40903)
    assert status_and_code(await found("POST", "/assignments", {"partitions": [{"topic": "t", "partition": 0}]})) == (
        409,
        40903,
    )
    await found.call_for_204("DELETE", "/subscription")
    await found.assign(0)
    assert await found.fetch_assignment() == [("t", 0)]
    assert status_and_code(await found("POST", "/subscription", {"topics": ["t"]})) == (409, 40903)
    await found.call_for_204("DELETE", "/subscription")
    assert await found.fetch_assignment() == []
    assert status_and_code(await found("GET", "/records")) == (409, 40903)


async def test_invalid_subscriptions_are_refused(consumer):
    found = await consumer()
    for body, expected in (
        ({}, (422, 42203)),
        ({"topics": []}, (422, 42208)),
        ({"topics": ["t"], "topic_pattern": "t"}, (422, 42203)),
        ({"topics": "t"}, (422, 42203)),
        ({"topic_pattern": ""}, (400, 40002)),
        ({"topic_pattern": "("}, (400, 40002)),
        ({"topic_pattern": "a(?=b)"}, (400, 40002)),
        ({"topic": ["t"]}, (400, 40002)),
        ({"topics": ["a/b"]}, (400, 40002)),
        ({"topics": ["__consumer_offsets"]}, (400, 40002)),
    ):
        assert status_and_code(await found("POST", "/subscription", body)) == expected, body


async def test_unknown_partitions_cannot_be_assigned(api, consumer):
    await api.create_topic("t")
    found = await consumer()
    assert status_and_code(
        await found("POST", "/assignments", {"partitions": [{"topic": "none", "partition": 0}]})
    ) == (
        404,
        40401,
    )
    assert status_and_code(await found("POST", "/assignments", {"partitions": [{"topic": "t", "partition": 1}]})) == (
        404,
        40402,
    )
    assert status_and_code(await found("POST", "/assignments", {})) == (422, 42203)


async def test_a_pattern_matches_topics_created_later(api, consumer):
    await api.create_topic("orders-1")
    await api.create_topic("my-orders")
    found = await consumer()
    await found.call_for_204("POST", "/subscription", {"topic_pattern": "orders-.*"})
    await produce(api, "first", topic="orders-1")
    await produce(api, "not this", topic="my-orders")
    assert await found.poll_values(1) == ["first"]
    await api.create_topic("orders-2")
    await produce(api, "second", topic="orders-2")
    assert await found.poll_values(1) == ["second"]
    _, answer = await found("GET", "/subscription")
    assert answer == {"topics": ["orders-1", "orders-2"], "topic_pattern": "orders-.*"}


async def test_an_instance_may_subscribe_to_a_topic_before_it_exists(api, consumer):
    found = await consumer()
    await found.subscribe("t")
    assert await found.poll("?timeout=10") == []
    await api.create_topic("t")
    await produce(api, "x")
    assert await found.poll_values(1) == ["x"]


async def test_two_instances_share_the_partitions_and_one_takes_over(api, consumer):
    await api.create_topic("t", 4)
    first, second = await consumer("a"), await consumer("b")
    await first.subscribe("t")
    await second.subscribe("t")

    async def is_shared():
        mine, others = await first.fetch_assignment(), await second.fetch_assignment()
        return len(mine) == len(others) == 2 and not set(mine) & set(others)

    await until_async(is_shared)
    for partition in range(4):
        await produce(api, partition, partition=partition)
    assert sorted(await first.poll_values(2) + await second.poll_values(2)) == [0, 1, 2, 3]
    await second.poll("?timeout=0")
    await second.call_for_204("DELETE")

    async def has_all():
        return len(await first.fetch_assignment()) == 4

    await until_async(has_all)
    for partition in range(4):
        await produce(api, 10 + partition, partition=partition)
    # Records committed by the other one are not repeated.
    assert sorted(await first.poll_values(4)) == [10, 11, 12, 13]


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky"])
async def test_every_strategy_assigns_each_partition_to_one_instance(api, consumer, strategy):
    await api.create_topic("t", 3)
    one, other = [await consumer(name, **{"partition.assignment.strategy": strategy}) for name in ("a", "b")]
    await one.subscribe("t")
    await other.subscribe("t")

    async def fetch_spread():
        """Return both assignments once each has a share, and nothing is held twice between two generations."""
        first, second = await one.fetch_assignment(), await other.fetch_assignment()
        return (first, second) if first and second and len(first + second) == 3 else None

    first, second = await until_async(fetch_spread)
    assert sorted(first + second) == [("t", 0), ("t", 1), ("t", 2)]


# records


async def test_records_have_timestamps_and_headers(api, consumer):
    await api.create_topic("t")
    record = {"key": {"k": 1}, "value": [1.5], "timestamp": 17, "headers": [{"name": "h", "value": "AAE="}]}
    await api.post("/topics/t", {"records": [record]})
    found = await consumer()
    await found.assign(0)
    (answered,) = await found.poll()
    assert answered == {**record, "topic": "t", "partition": 0, "offset": 0}
    assert await found.poll("?timeout=0") == []


async def test_a_binary_instance_returns_base64(api, consumer):
    await api.create_topic("t")
    body = {"records": [{"key": "AAE=", "value": "/w=="}]}
    await api.call("POST", "/topics/t", body, headers={"Content-Type": BINARY})
    found = await consumer(format="binary")
    await found.assign(0)
    (answered,) = await found.poll()
    assert (answered["key"], base64.b64decode(answered["value"])) == ("AAE=", b"\xff")


async def test_accept_must_allow_the_format_of_the_instance(api, consumer):
    await api.create_topic("t")
    await produce(api, "x")
    found = await consumer()
    await found.assign(0)
    for accept in (BINARY, "text/html", "application/vnd.kafka.avro.v2+json"):
        assert status_and_code(await found("GET", "/records", headers={"Accept": accept})) == (406, 40601)
    for accept, expected in (
        (f"{BINARY}, {JSON};q=0.5", JSON),
        ("application/vnd.kafka.v2+json", "application/json"),
        (f"{BINARY}, */*", "application/json"),
    ):
        async with api.session.get(api.url + found.path + "/records?timeout=0", headers={"Accept": accept}) as answer:
            assert (answer.status, answer.content_type) == (200, expected)


async def test_a_poll_is_bounded_by_bytes_and_time_of_query_and_settings(api, consumer):
    await api.create_topic("t")
    await produce(api, *("x" * 98 for _ in range(10)))
    found = await consumer(consumer_request_timeout_ms="0")
    await found.assign(0)
    assert len(await found.poll("?max_bytes=250")) == 2
    assert len(await found.poll("?max_bytes=1")) == 1
    assert len(await found.poll("?timeout=60000")) == 7
    assert await found.poll("?timeout=60000") == []  # at once
    for query in ("?timeout=-1", "?max_bytes=0", "?timeout=x", "?limit=5"):
        assert status_and_code(await found("GET", "/records" + query)) == (400, 40002)


async def test_a_poll_waits_for_enough_bytes(api, consumer):
    await api.create_topic("t", 2)
    found = await consumer(**{"fetch.min.bytes": 8, "consumer.request.timeout.ms": 60_000})
    await found.assign(0, 1)
    polling = asyncio.ensure_future(found.poll())
    await produce(api, "abc")
    await produce(api, "def", partition=1)
    assert sorted(record["value"] for record in await polling) == ["abc", "def"]


async def test_a_newer_poll_ends_the_older_one_which_returns_no_records(api, consumer):
    await api.create_topic("t")
    found = await consumer(**{"fetch.min.bytes": 1_000, "consumer.request.timeout.ms": 60_000})
    await found.assign(0)
    await produce(api, "kept")
    older = asyncio.ensure_future(found.poll())
    await until(lambda: api.broker.parts.counters.fetches > 0)
    newer = await found.poll("?timeout=200")
    assert (await older, [record["value"] for record in newer]) == ([], ["kept"])


async def test_a_poll_of_a_disconnected_client_consumes_no_records(api, consumer):
    await api.create_topic("t")
    found = await consumer(**{"consumer.request.timeout.ms": 60_000})
    await found.assign(0)
    async with aiohttp.ClientSession() as session:
        asking = asyncio.ensure_future(session.get(api.url + found.path + "/records"))
        instance = next(iter(api.broker.consumers._registry))
        await until(lambda: instance.users)
        asking.cancel()
    await until(lambda: not instance.users)
    await produce(api, "kept")
    assert await found.poll_values(1) == ["kept"]


async def test_a_new_subscription_ends_a_waiting_poll(api, consumer):
    await api.create_topic("t")
    found = await consumer(**{"consumer.request.timeout.ms": 60_000})
    await found.assign(0)
    polling = asyncio.ensure_future(found("GET", "/records"))
    instance = next(iter(api.broker.consumers._registry))
    await until(lambda: instance.users)
    await found.call_for_204("DELETE")
    assert status_and_code(await polling) == (404, 40403)


async def test_an_undecodable_batch_is_reported_until_the_client_skips_it(start_api):
    api = await start_api({"opened_bytes_max": 64 * 1024})
    await api.create_topic("t")
    await produce(api, "before")
    bomb = bytes(build_batch([NewRecord(b"x" * 200_000)], Compression.GZIP))
    headers = {"Content-Type": "application/vnd.raftlog.batches"}
    async with api.session.post(api.url + "/topics/t/partitions/0", data=bomb, headers=headers) as response:
        assert response.status == 200
    await produce(api, "behind")
    await api.post("/consumers/g", {"name": "c", "format": "json", "auto.offset.reset": "earliest"})
    found = Consumer(api, "g", "c")
    await found.assign(0)
    assert await found.poll_values(1) == ["before"]
    for _ in range(2):
        status, answer = await found("GET", "/records")
        assert (status, answer["error_code"]) == (422, 42207)
        assert answer["undecodable"] == {"base_offset": 1, "offset": 1, "next_offset": 2}
    await found.call_for_204("POST", "/positions", {"offsets": [{"topic": "t", "partition": 0, "offset": 2}]})
    assert await found.poll_values(1) == ["behind"]


# positions


async def test_positions_are_set_by_offset_time_and_end(api, consumer):
    await api.create_topic("t", 2)
    for partition in (0, 1):
        records = [{"value": number, "timestamp": 1_000 * number} for number in range(1, 5)]
        await api.post(f"/topics/t/partitions/{partition}", {"records": records})
    found = await consumer()
    await found.assign(0, 1)
    await found.call_for_204(
        "POST",
        "/positions",
        {
            "offsets": [{"topic": "t", "partition": 0, "offset": 3}],
            "timestamps": [{"topic": "t", "partition": 1, "timestamp": "1970-01-01T00:00:02.5Z"}],
        },
    )
    assert sorted(await found.poll_values(3)) == [3, 4, 4]
    await found.call_for_204("POST", "/positions/beginning", {"partitions": [{"topic": "t", "partition": 0}]})
    assert await found.poll_values(4) == [1, 2, 3, 4]
    await found.call_for_204(
        "POST", "/positions", {"timestamps": [{"topic": "t", "partition": 0, "timestamp": 99_000}]}
    )
    await found.call_for_204("POST", "/positions/end", {"partitions": [{"topic": "t", "partition": 1}]})
    await produce(api, "new")
    await produce(api, "new", partition=1)
    assert await found.poll_values(2) == ["new", "new"]


async def test_invalid_positions_are_refused(api, consumer):
    await api.create_topic("t", 2)
    found = await consumer()
    await found.assign(0)
    here = {"topic": "t", "partition": 0}
    for path, body, expected in (
        ("/positions", {"offsets": [{"topic": "t", "partition": 1, "offset": 0}]}, (409, 40903)),
        ("/positions", {"offsets": [{**here, "offset": -1}]}, (400, 40002)),
        ("/positions", {"offsets": [{**here, "offset": 1}] * 2}, (400, 40002)),
        ("/positions", {}, (422, 42208)),
        ("/positions", {"timestamps": [{**here, "timestamp": "yesterday"}]}, (422, 42203)),
        ("/positions/end", {"partitions": []}, (422, 42208)),
        ("/positions/end", {"offsets": []}, (400, 40002)),
    ):
        assert status_and_code(await found("POST", path, body)) == expected, body
    _, answer = await found("POST", "/positions", {"timestamps": [{**here, "timestamp": "yesterday"}]})
    assert answer["message"] == "timestamp 'yesterday' is not RFC 3339; write it like 2024-05-01T12:00:00Z"


async def test_latest_begins_with_records_produced_after_the_assignment(api, consumer):
    await api.create_topic("t")
    await produce(api, "before")
    found = await consumer(**{"auto.offset.reset": "latest"})
    await found.assign(0)
    assert await found.poll("?timeout=0") == []
    await produce(api, "after")
    assert await found.poll_values(1) == ["after"]


async def test_the_policy_none_needs_an_explicit_position(api, consumer):
    await api.create_topic("t")
    await produce(api, "a", "b")
    found = await consumer(**{"auto.offset.reset": "none"})
    await found.assign(0)
    status, answer = await found("GET", "/records")
    assert (status, answer["error_code"]) == (400, 40002)
    assert (answer["beginning_offset"], answer["end_offset"]) == (0, 2)
    assert "no offset is committed in t/0" in answer["message"]
    for offset in (1, 7):
        await found.call_for_204("POST", "/positions", {"offsets": [{"topic": "t", "partition": 0, "offset": offset}]})
        if offset == 1:
            assert await found.poll_values(1) == ["b"]
    for _ in range(2):  # it stays an error
        status, answer = await found("GET", "/records")
        assert (status, answer["error_code"], answer["end_offset"]) == (400, 40002, 2)
        assert "offset 7 of t/0 is out of range" in answer["message"]


async def test_a_position_out_of_range_follows_the_policy_and_is_logged(api, consumer):
    await api.create_topic("t")
    await produce(api, "a", "b")
    found = await consumer()
    await found.assign(0)
    await found.call_for_204("POST", "/positions", {"offsets": [{"topic": "t", "partition": 0, "offset": 7}]})
    async with api.session.get(api.url + found.path + "/records") as response:
        assert [record["value"] for record in await response.json()] == ["a", "b"]
        assert response.headers["X-Raftlog-Offset-Reset"] == "t/0 7->0"


async def test_a_recreated_topic_is_read_from_its_beginning(api, consumer):
    await api.create_topic("t")
    await produce(api, "old", "old")
    found = await consumer()
    await found.assign(0)
    assert await found.poll_values(2) == ["old", "old"]
    await api.call("DELETE", "/v3/clusters/-/topics/t")
    await api.create_topic("t")
    await produce(api, "new", "new", "new")
    assert await found.poll_values(3) == ["new", "new", "new"]


# offsets


async def test_auto_commit_commits_the_records_of_the_previous_poll(api, consumer):
    await api.create_topic("t")
    await produce(api, "a", "b")
    found = await consumer()
    await found.subscribe("t")
    assert await found.poll_values(2) == ["a", "b"]
    assert await found.fetch_committed() == {}
    await found.poll("?timeout=0")
    assert await found.fetch_committed() == {("t", 0): 2}
    await produce(api, "c")
    assert await found.poll_values(1) == ["c"]
    await found.call_for_204("DELETE")  # it has done with what it was given
    _, answer = await api.get("/groups/g/offsets")
    assert [row["offset"] for row in answer["offsets"]] == [3]


async def test_without_auto_commit_only_the_client_commits(api, consumer):
    await api.create_topic("t", 2)
    await produce(api, "a", "b")
    await produce(api, "c", partition=1)
    found = await consumer(**{"auto.commit.enable": "false"})
    await found.subscribe("t")
    await found.poll_values(3)
    await found.poll("?timeout=0")
    assert await found.fetch_committed() == {}
    # The offset that is sent is that of a record that was consumed, as in the REST Proxy.
    body = {"offsets": [{"topic": "t", "partition": 0, "offset": 0, "metadata": "half"}]}
    assert await found("POST", "/offsets", body) == (
        200,
        [{"topic": "t", "partition": 0, "consumed": 0, "committed": 1}],
    )
    _, answer = await found("GET", "/offsets", {"partitions": [{"topic": "t", "partition": 0}]})
    assert answer == {"offsets": [{"topic": "t", "partition": 0, "offset": 1, "metadata": "half"}]}
    assert (await found("GET", "/offsets?topic=t&partition=1"))[1] == {"offsets": []}
    _, answer = await found("POST", "/offsets")
    assert answer == [
        {"topic": "t", "partition": 0, "consumed": 1, "committed": 2},
        {"topic": "t", "partition": 1, "consumed": 0, "committed": 1},
    ]
    await found.call_for_204("DELETE")
    again = await consumer()
    await again.subscribe("t")
    await produce(api, "d")
    assert await again.poll_values(1) == ["d"]


async def test_an_asynchronous_commit_is_answered_before_it_is_done(api, consumer):
    await api.create_topic("t")
    await produce(api, "a")
    found = await consumer(**{"auto.commit.enable": False})
    await found.subscribe("t")
    await found.poll_values(1)
    assert await found("POST", "/offsets?async=true") == (
        200,
        [{"topic": "t", "partition": 0, "consumed": 0, "committed": None}],
    )

    async def is_committed():
        return await found.fetch_committed() == {("t", 0): 1}

    await until_async(is_committed)
    assert status_and_code(await found("POST", "/offsets?async=maybe")) == (400, 40002)


async def test_unowned_partitions_are_not_committed(api, consumer):
    await api.create_topic("t", 2)
    found = await consumer()
    assert status_and_code(
        await found("POST", "/offsets", {"offsets": [{"topic": "t", "partition": 1, "offset": 0}]})
    ) == (
        409,
        40903,
    )
    await found.assign(0)
    assert status_and_code(
        await found("POST", "/offsets", {"offsets": [{"topic": "t", "partition": 1, "offset": 0}]})
    ) == (
        409,
        40903,
    )
    body = {"offsets": [{"topic": "t", "partition": each, "offset": 4} for each in (0, 1)]}
    status, (taken, refused) = await found("POST", "/offsets", body)
    assert (status, taken["committed"], refused["committed"], refused["error_code"]) == (200, 5, None, 40903)
    assert await found.fetch_committed() == {("t", 0): 5}
    for body, expected in (
        ({"offsets": []}, (422, 42208)),
        ({"offsets": [{"topic": "t", "partition": 0}]}, (422, 42203)),
        ({"offsets": [{"topic": "t", "partition": 0, "offset": -1}]}, (400, 40002)),
        ({"offsets": [{"topic": "t", "partition": 0, "offset": 0, "metadata": "x" * 5_000}]}, (400, 40002)),
    ):
        assert status_and_code(await found("POST", "/offsets", body)) == expected
    assert status_and_code(await found("GET", "/offsets?topic=t")) == (400, 40002)


async def test_assigned_partitions_have_watermarks_while_the_group_is_empty(api, consumer):
    await api.create_topic("t")
    by_hand, member = await consumer("by-hand"), await consumer("member")
    await by_hand.assign(0)
    one = {"topic": "t", "partition": 0}
    for offset, committed in ((4, 5), (2, 5), (7, 8)):
        _, (answered,) = await by_hand("POST", "/offsets", {"offsets": [{**one, "offset": offset}]})
        assert answered == {**one, "consumed": offset, "committed": committed}
    await member.subscribe("t")
    await until_async(member.fetch_assignment)
    assert status_and_code(await by_hand("POST", "/offsets", {"offsets": [{**one, "offset": 9}]})) == (409, 40903)
    await member.call_for_204("DELETE")
    _, (answered,) = await by_hand("POST", "/offsets", {"offsets": [{**one, "offset": 9}]})
    assert answered["committed"] == 10
