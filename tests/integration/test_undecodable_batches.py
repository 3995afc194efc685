"""Three real brokers with every undecodable batch in one partition: readers, a compaction, replicas on disk.

Sound records stand between the batches; each has the same key, so that a compaction leaves the newest of them.
"""

import asyncio
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson
import pytest
from click.testing import CliRunner

from raftlog.cli.log.verbs import verify
from raftlog.client import Consumer
from raftlog.errors import UndecodableBatch
from raftlog.records import split_batches
from raftlog.testing import Cluster
from raftlog.testing.http import ask
from raftlog.types import TopicPartition
from tests.integration.cluster_load import BATCHES, create_topic
from tests.undecodable import SMALL, make_bombs

COMPACTION_SECONDS_MAX = 90.0
TOPIC = "poisoned"
RECORDS = f"/topics/{TOPIC}/partitions/0/records"
PLACE = TopicPartition(TOPIC, 0)


class Content(NamedTuple):
    """Content of the partition: offsets of the valid records, and undecodable batches by their base offset."""

    sound: list[int]
    undecodable: dict[int, bytes]


def post(address: str, path: str, body: bytes, content_type: str) -> Any:
    request = urllib.request.Request(f"http://{address}{path}", body, {"Content-Type": content_type}, method="POST")
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def produce_valid_record(address: str) -> int:
    answer = post(address, f"/topics/{TOPIC}/partitions/0", b'{"records":[{"key":"k","value":1}]}', "application/json")
    return int(answer["offsets"][0]["offset"])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, serve_flags=("--retention-interval-s", "0.5"), with_cuts=False) as three:
        yield three


@pytest.fixture(scope="module")
def sent(cluster: Cluster) -> Content:
    """Append valid records and undecodable batches in turn."""
    address = cluster.addresses[0]
    create_topic(address, TOPIC, segment_bytes=4096)
    found = Content([], {})
    for each in SMALL:
        found.sound.append(produce_valid_record(address))
        answer = post(address, f"/topics/{TOPIC}/partitions/0", each.batch, BATCHES)
        found.undecodable[answer["offsets"][0]["offset"]] = each.batch
    found.sound.append(produce_valid_record(address))
    return found


def read_past_errors(get: Callable[[int], tuple[int, Any]], end: int) -> tuple[list[int], dict[int, int]]:
    """Read from 0 on and continue after each error; return the offsets, and how far each batch was read."""
    offset, found, read_to = 0, list[int](), dict[int, int]()
    while offset < end:
        status, body = get(offset)
        if status == 422:
            error = body["undecodable"]
            assert error["offset"] >= offset, "the records before it came first, as far as they are not compacted"
            read_to[error["base_offset"]] = offset
            offset = error["next_offset"]
        else:
            assert status == 200, body
            found += [record["offset"] for record in body]
            offset = found[-1] + 1
    return found, read_to


def require_all(sent: Content, found: list[int], read_to: dict[int, int]) -> None:
    assert read_to.keys() == sent.undecodable.keys(), "each batch is reported"
    inside = [offset for base, behind in read_to.items() for offset in range(base, behind)]
    assert found == sorted({*sent.sound, *inside})


def test_json_readers_of_all_brokers_get_every_decodable_record(cluster: Cluster, sent: Content) -> None:
    results = []
    for address in cluster.addresses:
        found, read_to = read_past_errors(lambda at, to=address: ask(to, f"{RECORDS}?offset={at}"), sent.sound[-1] + 1)  # type: ignore[misc]
        require_all(sent, found, read_to)
        results.append((found, read_to))
    assert results == results[:1] * 3


def test_lines_end_at_each_undecodable_batch_and_continue_after_it(cluster: Cluster, sent: Content) -> None:
    offset, found, read_to = 0, list[int](), dict[int, int]()
    while offset <= sent.sound[-1]:
        url = f"http://{cluster.addresses[1]}{RECORDS}?offset={offset}"
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": "application/x-ndjson"})) as answer:
            *records, last = map(orjson.loads, answer.read().splitlines())
        found += [record["offset"] for record in records]
        if "error_code" not in last:
            found.append(last["offset"])
            break
        assert last["next_offset"] == last["undecodable"]["offset"]
        read_to[last["undecodable"]["base_offset"]] = last["next_offset"]
        offset = last["undecodable"]["next_offset"]
    require_all(sent, found, read_to)


def test_a_consumer_instance_continues_at_a_new_position(cluster: Cluster, sent: Content) -> None:
    address, place = cluster.addresses[2], {"topic": TOPIC, "partition": 0}

    def call(method: str, path: str, body: object = None) -> tuple[int, Any]:
        return ask(address, f"/consumers/readers{path}", method=method, body=body)

    assert call("POST", "", {"name": "one", "format": "json", "auto.offset.reset": "earliest"})[0] == 200
    assert call("POST", "/instances/one/assignments", {"partitions": [place]})[0] == 204

    def poll(offset: int) -> tuple[int, Any]:
        status, body = call("GET", "/instances/one/records?timeout=2000")
        if status == 422:
            assert call("GET", "/instances/one/records?timeout=0")[0] == 422, "asking again skips nothing"
            to = body["undecodable"]["next_offset"]
            assert call("POST", "/instances/one/positions", {"offsets": [place | {"offset": to}]})[0] == 204
        return status, body

    require_all(sent, *read_past_errors(poll, sent.sound[-1] + 1))
    call("DELETE", "/instances/one")


async def test_a_python_consumer_continues_where_it_seeks(cluster: Cluster, sent: Content) -> None:
    found, read_to, places = list[int](), dict[int, int](), set[TopicPartition | None]()
    async with asyncio.timeout(60), Consumer(cluster.addresses) as consumer:
        await consumer.assign({PLACE: 0})
        while not found or found[-1] < sent.sound[-1]:
            try:
                found += [record.offset for record in await consumer.poll()]
            except UndecodableBatch as error:
                places.add(error.place)
                read_to[error.base_offset] = error.offset
                consumer.seek(PLACE, error.next_offset)
    require_all(sent, found, read_to)
    assert places == {PLACE}


def test_compression_bombs_cost_their_readers_only_an_error(cluster: Cluster) -> None:
    create_topic(cluster.addresses[0], "bombs")
    for bomb in make_bombs():
        answer = post(cluster.addresses[0], "/topics/bombs/partitions/0", bomb.batch, BATCHES)
        at = answer["offsets"][0]["offset"]
        status, body = ask(cluster.addresses[0], f"/topics/bombs/partitions/0/records?offset={at}", timeout_s=30)
        assert (status, body["undecodable"]["next_offset"]) == (422, at + bomb.span)
    cluster.wait_healthy()


def test_compaction_keeps_undecodable_batches_unchanged_on_all_replicas(cluster: Cluster, sent: Content) -> None:
    address = cluster.addresses[0]
    changes = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    body = {"data": [{"name": name, "value": value} for name, value in changes.items()]}
    status, answer = ask(address, f"/v3/clusters/-/topics/{TOPIC}/configs:alter", method="POST", body=body)
    assert status == 204, answer
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(address, f"/topics/{TOPIC}/partitions/0", SMALL[0].batch, BATCHES)
    refused.value.close()  # the error is the open answer itself
    assert refused.value.code == 400, "no more of them come into a compacted topic"

    until = time.monotonic() + COMPACTION_SECONDS_MAX
    while not all(compaction_end(log) > max(sent.undecodable) for log in cluster.logs().values()):
        assert time.monotonic() < until, "all brokers compact what lies below"
        sent.sound.append(produce_valid_record(address))  # segments are closed by what follows
    for each in cluster.addresses:
        assert fetch_undecodable(each, sent) == sent.undecodable
        found, read_to = read_past_errors(lambda at, to=each: ask(to, f"{RECORDS}?offset={at}"), sent.sound[-1] + 1)  # type: ignore[misc]
        assert read_to.keys() == sent.undecodable.keys()
        assert not set(sent.sound[: len(SMALL)]) & set(found), "older records of the key are deleted"
    for log in cluster.logs().values():
        assert not re.search(r"Traceback|never retrieved", log)
    for node in cluster.nodes.values():
        assert node.stop() == 0
    result = CliRunner().invoke(verify, ["--compare", *(str(node.data_dir) for node in cluster.nodes.values())])
    assert result.exit_code == 0, result.output


def compaction_end(log: str) -> int:
    """Return the offset below which a broker has compacted the topic, from its events."""
    lines = (line for line in log.splitlines() if '"log_compacted"' in line)
    return max((orjson.loads(line)["compacted_to"] for line in lines), default=0)


def fetch_undecodable(address: str, sent: Content) -> dict[int, bytes]:
    """Return the undecodable batches as served by a broker, without the fields that the leader stamps."""
    offset, found = 0, dict[int, bytes]()
    while offset < sent.sound[-1]:
        url = f"http://{address}{RECORDS}?offset={offset}"
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": BATCHES})) as response:
            for header, batch in split_batches(response.read()):
                if header.base_offset in sent.undecodable:
                    own = sent.undecodable[header.base_offset]
                    found[header.base_offset] = own[:16] + bytes(batch[16:])
                offset = header.next_offset
    return found
