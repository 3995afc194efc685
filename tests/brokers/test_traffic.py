"""Metrics of the messages between brokers."""

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from raftlog.api.http.metrics.metrics import Metrics
from raftlog.api.http.metrics.requests import RequestMetrics
from raftlog.partitions.deadline import deadline_in
from raftlog.records import NewRecord


async def scrape_counts(broker):
    """Return the requests forwarded and the messages by direction and kind, from the text of a scrape."""
    text = (await Metrics(broker, RequestMetrics(), 1_000).render())[0].decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    (forwards,) = (sample.value for sample in samples if sample.name == "raftlog_forwards_total")
    messages = Counter(
        {
            (sample.labels["direction"], sample.labels["kind"]): sample.value
            for sample in samples
            if sample.name == "raftlog_rpc_messages_total"
        }
    )
    return forwards, messages


async def test_a_forwarded_produce_counts_as_a_request_and_an_answer(brokers):
    """Bounds are minimums where other messages have the same kind, or where one message may carry two entries."""
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    follower = (await brokers.followers("t"))[0]
    leader = await brokers.leader("t")
    (forwards_before, before), (_, led_before) = (
        await scrape_counts(brokers[follower]),
        await scrape_counts(brokers[leader]),
    )
    for number in range(5):
        value = NewRecord(str(number).encode())
        (result,) = await brokers[follower].produce_records("t", 0, [value], deadline=deadline_in(10_000))
        assert result.error is None
    (forwards, after), (_, led) = await scrape_counts(brokers[follower]), await scrape_counts(brokers[leader])
    assert forwards - forwards_before == 5
    assert after["out", "request"] - before["out", "request"] >= 5
    assert after["in", "answer"] - before["in", "answer"] >= 5
    assert led["in", "request"] - led_before["in", "request"] >= 5
    assert led["out", "append_request"] - led_before["out", "append_request"] >= 5, "one for each committed entry"
    others = [number for number in brokers.running if number != leader]
    received = sum([(await scrape_counts(brokers[number]))[1]["in", "append_request"] for number in others])
    assert received >= 5
