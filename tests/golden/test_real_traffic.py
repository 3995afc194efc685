"""Requests and answers of real brokers have exactly the fields of their samples."""

from collections.abc import Iterator
from typing import Any

import pytest

from raftlog.partitions.node.requests import Requests
from raftlog.records import NewRecord, build_empty_batch
from raftlog.types import Offset
from tests.brokers.conftest import Brokers
from tests.brokers.test_recovering import OPERATOR
from tests.golden.requests import REQUESTS, Rows, find_difference
from tests.operations.conftest import soon, three

__all__ = ["three"]
SEEN = {
    "data.produce",
    "data.fetch",
    "data.offsets",
    "data.timestamp",
    "data.trim",
    "view.partitions",
    "view.broker",
    "control.submit",
    "control.join",
    "balancing.report",
    "balancing.rebalance",
    "operations.broker",
    "operations.moves",
    "operations.transfer",
    "operations.restore",
    "recover.look",
}
"""Requests that the calls below certainly lead to."""


@pytest.fixture(autouse=True)
def answered_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Compare all traffic with the samples; yield the names of the answered requests."""
    serve = Requests.serve
    answered: set[str] = set()
    problems: list[str] = []

    async def serve_and_compare(self: Requests, node: Any, call: Any, stranger: Any = None) -> Any:
        answer = await serve(self, node, call, stranger)
        if call.name in REQUESTS:
            header, expected = REQUESTS[call.name]
            answered.add(call.name)
            problems.extend(filter(None, [find_difference(header, call.value, f"CALL {call.name}")]))
            problems.extend(filter(None, [find_difference(expected, answer.value, f"ANSWER {call.name}")]))
        return answer

    monkeypatch.setattr(Requests, "serve", serve_and_compare)
    yield answered
    assert sorted(set(problems)) == []


async def test_sample_requests_have_the_fields_of_real_ones(three: Brokers, answered_requests: set[str]) -> None:
    await three[1].create_topic("t", 3, deadline=soon())
    for number in (1, 2, 3):
        broker = three[number]
        for partition in range(3):
            at = ("t", partition)
            records = [NewRecord(b"value", b"key", 1_000)]
            assert (await broker.produce_records(*at, records, deadline=soon()))[0].error is None
            await broker.fetch(*at, Offset(number - 1), max_bytes=1_000, deadline=soon())
            await broker.offsets(*at, deadline=soon())
            await broker.offset_for_timestamp(*at, 1_000, deadline=soon())
            await broker.delete_records(*at, Offset(1), deadline=soon())
        await broker.describe_topics(deadline=soon())
        await broker.brokers(deadline=soon())
        await broker.operations.partitions.reconfigurations(deadline=soon())
        await broker.operations.cluster.cluster_config_status(deadline=soon())
        await broker.operations.balancing.balancer_status(deadline=soon())
        await broker.operations.balancing.rebalance(deadline=soon())
        await broker.operations.cluster.alter_cluster_config({"balancer.moves.max": number}, deadline=soon())
        await broker.recover_partition("t", 0, OPERATOR, accept_loss=False, survivor=None, deadline=soon())
        for partition in range(3):
            end = (await broker.offsets("t", partition, linearizable=True, deadline=soon())).end
            filler = build_empty_batch(end, end + 1, 0)
            await broker.operations.restoring.restore_batches("t", partition, filler, deadline=soon())
        await broker.operations.leadership.transfer_leadership("t", 0, None, deadline=soon())
    assert SEEN - answered_requests == set()


@pytest.mark.parametrize(
    ("sample", "found", "why"),
    [
        ([1, "a"], [1, "a", 2], "3 fields and not 2"),
        ([1, "a"], [1, b"a"], "[1]: bytes and not str"),
        (Rows([[1]]), [[1], [1, 2]], "[1]: 2 fields and not 1"),
        ({"a": 1}, {"a": 1, "b": 2}, "fields"),
    ],
)
def test_another_shape_is_detected(sample: Any, found: Any, why: str) -> None:
    assert why in str(find_difference(sample, found))
