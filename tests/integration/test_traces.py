"""Traces of produce requests in a cluster of three brokers: one trace id over forward and leader, from the command."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from raftlog.testing import Cluster
from tests.integration.test_cluster_operators import output_of, wait_for_leaders

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def traced() -> Iterator[tuple[Cluster, str, str]]:
    """Return a cluster with tracing on demand, a topic, and the address of a broker that does not lead it."""
    with Cluster(3, serve_flags=["--trace", "0"]) as cluster:
        address = cluster.addresses[0]
        output_of(address, "topic", "create", "orders")
        leader = wait_for_leaders(address, "orders")[0]
        other = next(node.http for number, node in cluster.nodes.items() if number != leader)
        yield cluster, "orders", other


def spans_of(parts: list[Any]) -> dict[str, tuple[int, Any]]:
    """Return node id and span by name; those of followers have the node in their name."""
    return {
        f"{span['name']} {span['attributes']['node']}" if span["name"] == "replicate" else span["name"]: (
            part["node_id"],
            span,
        )
        for part in parts
        for span in part["spans"]
    }


def trace_forwarded(cluster: Cluster, topic: str) -> list[Any]:
    """Return the trace of a request to a broker that did not lead; leaderships may move meanwhile."""
    for address in cluster.addresses * 3:
        (parts,) = json.loads(output_of(address, "trace", f"{topic}/0", "--json"))
        if len(parts) == 2:
            return list(parts)
    raise AssertionError("no request was forwarded")


def test_a_request_through_another_broker_has_its_forward_and_the_leaders_steps(
    traced: tuple[Cluster, str, str],
) -> None:
    cluster, topic, _ = traced
    parts = trace_forwarded(cluster, topic)
    assert len({part["trace_id"] for part in parts}) == 1
    spans = spans_of(parts)
    leader = spans["append for another broker"][0]
    followers = sorted(set(cluster.nodes) - {leader})
    assert set(spans) == {
        *("produce request", "queue", "produce", "forward", "append for another broker", "replicate and commit"),
        *("append", "journal sync", "commit"),
        *(f"replicate {node}" for node in followers),
    }
    measured_by = {name: node for name, (node, _) in spans.items()}
    receiver = measured_by["produce request"]
    assert receiver != leader
    assert {measured_by[name] for name in ("queue", "produce", "forward")} == {receiver}
    assert {measured_by[name] for name in ("append for another broker", "journal sync", "commit")} == {leader}
    parents = {name: span["parent_id"] for name, (_, span) in spans.items()}
    ids = {name: span["span_id"] for name, (_, span) in spans.items()}
    assert parents["append for another broker"] == ids["forward"]
    assert parents["forward"] == ids["produce"]
    assert parents["produce"] == parents["queue"] == ids["produce request"]
    assert parents["journal sync"] == ids["replicate and commit"]
    durations = {name: span["duration_us"] for name, (_, span) in spans.items()}
    assert durations["produce request"] >= durations["forward"] >= durations["append for another broker"]
    assert durations["replicate and commit"] >= durations["commit"] > 0
    assert any("pending" not in spans[f"replicate {node}"][1]["attributes"] for node in followers), "no quorum"


def test_the_waterfall_names_each_step(traced: tuple[Cluster, str, str]) -> None:
    cluster, topic, other = traced
    trace_id = trace_forwarded(cluster, topic)[0]["trace_id"]
    shown = output_of(other, "trace", "--id", trace_id).splitlines()
    assert shown[0].startswith("trace ")
    assert "produce request" in shown[1]
    assert any("    forward @" in line for line in shown)
    assert any("journal sync @" in line and "█" in line for line in shown)


def produce(address: str, topic: str, headers: dict[str, str], record: dict[str, Any]) -> None:
    request = urllib.request.Request(
        f"http://{address}/topics/{topic}/partitions/0",
        json.dumps({"records": [record]}).encode(),
        {"Content-Type": "application/json", **headers},
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


def test_the_context_of_a_header_is_kept_on_every_broker_and_slow_ones_are_listed(
    traced: tuple[Cluster, str, str],
) -> None:
    _, topic, other = traced
    produce(other, topic, {"traceparent": CALLER}, {"value": 1})
    trace_id = CALLER.split("-")[1]
    parts = json.loads(output_of(other, "trace", "--id", trace_id, "--json"))[0]
    assert {part["trace_id"] for part in parts} == {trace_id}
    assert spans_of(parts)["produce request"][1]["parent_id"] == CALLER.split("-")[2]
    listed = json.loads(output_of(other, "trace", "--slow", "100", "--json"))
    assert trace_id in {parts[0]["trace_id"] for parts in listed}
    durations = [max(part["spans"][0]["duration_us"] for part in parts) for parts in listed]
    assert durations == sorted(durations, reverse=True)


def test_requests_without_a_sampled_context_are_not_traced(traced: tuple[Cluster, str, str]) -> None:
    cluster, topic, other = traced

    def count_traces() -> int:
        return sum(len(node.get("/v1/traces")["traces"]) for node in cluster.nodes.values())

    before = count_traces()
    produce(other, topic, {}, {"value": 1})
    produce(other, topic, {"traceparent": f"{CALLER[:-2]}00"}, {"value": 1})
    produce(other, topic, {"traceparent": "00-nonsense"}, {"value": 1})
    assert count_traces() == before
