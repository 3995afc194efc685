"""Scrapes: bounded series, escaped labels, output in slices, and one rendering for simultaneous scrapes."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from raftlog.api.http.metrics import metrics
from raftlog.api.http.metrics.metrics import Metrics
from raftlog.api.http.metrics.partitions import OTHERS, TOPICS_MAX, partition_families
from raftlog.api.http.metrics.requests import STREAM, RequestMetrics
from raftlog.api.http.server.answer_memory import AnswerMemory
from raftlog.errors import InvalidTopic
from raftlog.partitions.controller.machine.naming import check_topic_name
from raftlog.partitions.groups.figures import GroupFigures
from raftlog.partitions.metric_sources import Figures, ReplicaFigures
from raftlog.partitions.transactions.environment import TransactionCounters
from raftlog.partitions.transactions.service import TransactionFigures
from raftlog.topic_config import MIB
from raftlog.types import NodeId


def replica_figures(topic: str, partition: int, lag: int = 0) -> ReplicaFigures:
    return ReplicaFigures(topic, partition, 10 + partition, 3, 100, True, ((NodeId(2), lag), (NodeId(3), 0)))


def parse_samples(text: str) -> dict[tuple[str, ...], float]:
    """Return the samples by name and label values; values are in the order of the label names."""
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, *(value for _, value in sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


class Scraped:
    """Metrics of a broker with the given replicas and nothing else; counts its scrapes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, replicas: list[ReplicaFigures], partitions_max: int) -> None:
        self.looks = 0
        self._figures = Figures(sorted(replicas))
        monkeypatch.setattr(metrics, "SOURCES", ())
        transactions = SimpleNamespace(local_figures=self.transaction_figures, counters=TransactionCounters())
        groups = SimpleNamespace(local_figures=self.group_figures)
        broker: Any = SimpleNamespace(measuring=self, groups=groups, transactions=transactions)
        self.metrics = Metrics(broker, RequestMetrics(), partitions_max)

    async def read_figures(self) -> Figures:
        self.looks += 1
        await asyncio.sleep(0)
        return self._figures

    async def group_figures(self, lags_max: int) -> GroupFigures:
        return GroupFigures({}, 0, [], 0)

    async def transaction_figures(self) -> TransactionFigures:
        return TransactionFigures({}, 0.0)

    async def scrape(self) -> dict[tuple[str, ...], float]:
        text, content_type = await self.metrics.render()
        assert content_type == "text/plain"
        return parse_samples(text.decode())


async def test_partitions_up_to_the_bound_have_series_and_all_count_in_the_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replicas = [replica_figures(topic, number, lag=number) for topic in ("b", "a") for number in range(3)]
    seen = await Scraped(monkeypatch, replicas, 4).scrape()
    partitions = [key[1:] for key in seen if key[0] == "raftlog_partition_high_watermark"]
    assert sorted(partitions) == [("0", "a"), ("0", "b"), ("1", "a"), ("2", "a")]
    assert seen["raftlog_metrics_partitions_left_out",] == 2
    assert seen["raftlog_partition_high_watermark", "2", "a"] == 12
    assert seen["raftlog_replica_lag_entries", "2", "2", "a"] == 2
    assert seen["raftlog_topic_replicas", "b"] == 3
    assert seen["raftlog_topic_records", "b"] == 7 + 8 + 9
    assert seen["raftlog_topic_lag_entries_max", "b"] == 2
    assert seen["raftlog_log_bytes",] == 600


async def test_topics_past_the_bound_share_one_series(monkeypatch: pytest.MonkeyPatch) -> None:
    replicas = [replica_figures(f"t{number:05d}", 0) for number in range(TOPICS_MAX + 5)]
    seen = await Scraped(monkeypatch, replicas, 2).scrape()
    assert sum(key[0] == "raftlog_topic_replicas" for key in seen) == TOPICS_MAX + 1
    assert seen["raftlog_topic_replicas", OTHERS] == 5
    with pytest.raises(InvalidTopic):
        check_topic_name(OTHERS)


async def test_a_broker_without_partitions_can_be_scraped(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = await Scraped(monkeypatch, [], 10).scrape()
    assert seen["raftlog_partitions",] == 0
    assert not any(key[0].startswith("raftlog_topic_") for key in seen)


def test_labels_are_escaped() -> None:
    families = partition_families([replica_figures('a"b\\c\n', 0)], 1)
    text = b"".join(metrics.generate_latest(metrics._Families(family)) for family in families).decode()
    assert parse_samples(text)["raftlog_topic_replicas", 'a"b\\c\n'] == 1


async def test_a_long_family_is_written_in_pieces_with_one_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks get the event loop between two pieces."""
    scraped = Scraped(monkeypatch, [], 1)

    def long_family(_: Any) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily("long", "Long.", labels=["n"])
        for number in range(4 * metrics._SLICE):
            family.add_metric([str(number)], number)
        yield family

    monkeypatch.setattr(metrics, "SOURCES", (long_family,))
    written: list[int] = []
    write = metrics.generate_latest

    def count_pieces(families: Any) -> bytes:
        written.append(sum(len(family.samples) for family in families.collect()))
        return write(families)

    monkeypatch.setattr(metrics, "generate_latest", count_pieces)
    turns = 0
    rendering = asyncio.ensure_future(scraped.metrics.render())
    while not rendering.done():
        turns += 1
        await asyncio.sleep(0)
    text, _ = rendering.result()
    assert max(written) == metrics._SLICE
    assert turns >= len(written)
    assert text.count(b"# TYPE long gauge") == text.count(b"# HELP long ") == 1
    assert sum(key[0] == "long" for key in parse_samples(text.decode())) == 4 * metrics._SLICE


async def test_scrapes_at_the_same_time_share_one_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled scrape does not end the rendering for the others, and the next scrape renders again."""
    scraped = Scraped(monkeypatch, [replica_figures("t", 0)], 1)
    first, second = (asyncio.ensure_future(scraped.metrics.render()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    text, _ = await second
    assert b"raftlog_topic_replicas" in text
    assert scraped.looks == 1
    await scraped.metrics.render()
    assert scraped.looks == 2


async def test_requests_are_counted_by_operation(api: Any) -> None:
    await api.create_topic("t")
    for path in ("/topics/t/partitions/0/records?offset=0&timeout=0", "/v1/brokers", "/nowhere"):
        async with api.session.get(api.url + path) as response:
            await response.read()
    async with api.session.get(api.url + "/metrics") as response:
        assert response.status == 200
        seen = parse_samples(await response.text())
    count = "raftlog_http_request_seconds_count"
    assert seen[count, "fetch"] == seen[count, "unknown"] == 1
    assert seen[count, "operators"] == 1, "the scrape itself is not over yet"
    assert (count, STREAM) not in seen
    assert seen["raftlog_partition_log_start_offset", "0", "t"] == 0


async def test_v3_requests_are_counted_by_their_resource(api: Any) -> None:
    await api.create_topic("t")
    async with api.session.get(api.url + "/metrics") as response:
        before = parse_samples(await response.text())
    for path in ("/v3/clusters", "/v3/clusters/-/topics/t", "/v3/clusters/-/consumer-groups"):
        async with api.session.get(api.url + path) as response:
            assert response.status == 200
    async with api.session.get(api.url + "/metrics") as response:
        seen = parse_samples(await response.text())
    count = "raftlog_http_request_seconds_count"
    counted = {
        name: seen.get((count, name), 0) - before.get((count, name), 0) for name in ("topics", "groups", "operators")
    }
    assert counted == {"topics": 2, "groups": 1, "operators": 1}, "the first scrape is the operators' request"


async def test_large_answers_are_counted_by_operation(api: Any) -> None:
    await api.create_topic("t")
    await api.post("/topics/t", {"records": [{"value": "x" * 200_000}]})
    async with api.session.get(api.url + "/topics/t/partitions/0/records?offset=0") as response:
        assert len(await response.read()) > 200_000
    async with api.session.get(
        api.url + "/topics/t/partitions/0/records?offset=0", headers={"Accept": "application/x-ndjson"}
    ) as response:
        assert len(await response.read()) > 200_000
    async with api.session.get(api.url + "/metrics") as response:
        seen = parse_samples(await response.text())
    count = "raftlog_http_request_seconds_count"
    assert seen[count, "fetch"] == seen[count, STREAM] == 1


async def test_shares_of_the_memory_budget_are_exported(start_api: Any) -> None:
    api = await start_api({"memory_budget_bytes": 8 * MIB})
    await api.create_topic("t")
    await api.post("/topics/t", {"records": [{"value": "x" * 200_000}]})
    held = AnswerMemory(api.server.answers)
    held.add(3 * MIB)
    status, _ = await api.get("/topics/t/partitions/0/records?offset=0")
    async with api.session.get(api.url + "/metrics") as response:
        seen = parse_samples(await response.text())
    assert (status, seen["raftlog_memory_budget_refused_total", "answers"]) == (503, 1)
    assert seen["raftlog_memory_budget_used_bytes", "answers"] == 3 * MIB
    limits = {share: seen["raftlog_memory_budget_limit_bytes", share] for share in ("frames", "requests", "answers")}
    assert limits == {"frames": 2 * MIB, "requests": 3 * MIB, "answers": 3 * MIB}
    assert seen["raftlog_memory_budget_connections_waiting", "requests"] == 0
    held.release()
