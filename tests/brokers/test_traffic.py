"""Metrics of the messages between brokers."""

from prometheus_client.parser import text_string_to_metric_families

from raftlog.api.http.metrics.metrics import Metrics
from raftlog.api.http.metrics.requests import RequestMetrics
from raftlog.partitions.deadline import deadline_in
from raftlog.records import NewRecord


async def messages_of(broker):
    """Return the counts of messages by direction and kind, from the text of a scrape."""
    text = (await Metrics(broker, RequestMetrics(), 1_000).render())[0].decode()
    return {
        (sample.labels["direction"], sample.labels["kind"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "raftlog_rpc_messages_total"
    }


async def test_a_produce_that_is_forwarded_is_a_request_and_an_answer(brokers):
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    follower = (await brokers.followers("t"))[0]
    leader = await brokers.leader("t")
    before, led_before = await messages_of(brokers[follower]), await messages_of(brokers[leader])
    for number in range(5):
        value = NewRecord(str(number).encode())
        (result,) = await brokers[follower].produce_records("t", 0, [value], deadline=deadline_in(10_000))
        assert result.error is None
    after, led = await messages_of(brokers[follower]), await messages_of(brokers[leader])
    assert after["out", "request"] - before.get(("out", "request"), 0) == 5
    assert after["in", "answer"] - before.get(("in", "answer"), 0) == 5
    assert led["in", "request"] - led_before.get(("in", "request"), 0) == 5
    assert led["out", "append_request"] - led_before["out", "append_request"] >= 10, "two followers"
    assert after["in", "append_request"] - before["in", "append_request"] >= 5
