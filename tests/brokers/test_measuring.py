"""Metrics of brokers in a cluster: leaders, lag, latencies, forwarded requests."""

import asyncio

from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.metric_sources import Figures
from raftlog.records import NewRecord
from tests.waiting import until_async


async def produce(broker: Broker, count: int) -> None:
    for number in range(count):
        record = NewRecord(str(number).encode())
        (result,) = await broker.produce_records("t", 0, [record], deadline=deadline_in(10_000))
        assert result.error is None


async def wait_for_figures(broker: Broker, is_so) -> Figures:
    """Wait until the broker's figures meet the condition; return them."""

    async def read() -> Figures | None:
        figures = await broker.measuring.read_figures()
        return figures if is_so(figures) else None

    return await until_async(read)


async def test_the_leader_reports_the_lag_of_a_stopped_follower(brokers):
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    leader = await brokers.leader("t")
    away = (await brokers.followers("t"))[0]
    whole = await wait_for_figures(brokers[leader], lambda seen: not seen.under_replicated)
    assert whole.led >= 1
    await brokers.stop(away)
    leader = await brokers.leader("t")
    await produce(brokers[leader], 5)
    behind = await wait_for_figures(
        brokers[leader], lambda seen: seen.under_replicated and dict(seen.replicas[0].lags).get(away, 0) >= 5
    )
    (row,) = behind.replicas
    assert (row.topic, row.partition, row.high_watermark, row.log_start_offset, row.is_led) == ("t", 0, 5, 0, True)
    assert row.log_bytes > 0
    (follower,) = (number for number in brokers.running if number != leader)
    (seen,) = (await wait_for_figures(brokers[follower], lambda seen: seen.replicas[0].high_watermark == 5)).replicas
    assert (seen.is_led, seen.lags) == (False, ())
    await brokers.start(away)
    await wait_for_figures(
        brokers[leader],
        lambda seen: not seen.led or not (seen.under_replicated or any(lag for _, lag in seen.replicas[0].lags)),
    )


async def test_latencies_are_counted_at_the_broker_where_they_arise(brokers):
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    leader, follower = await brokers.leader("t"), (await brokers.followers("t"))[0]
    driver, asked = brokers[leader].node.driver, brokers[follower]

    def counts() -> list[int]:
        times = (driver.persister.append_times, driver.journal.sync_times, driver.commit_times)
        return [sum(each.counts) for each in (*times, asked.parts.counters.append_times)]

    before, forwarded = counts(), (await asked.measuring.read_figures()).forwarded
    await produce(asked, 7)
    after, seen = counts(), await asked.measuring.read_figures()
    assert all(now - then >= 7 for then, now in zip(before, after, strict=True)), (before, after)
    assert after[3] - before[3] == 7, "one for each append, at the broker that was asked"
    assert (seen.forwarded - forwarded, seen.forwarding) == (7, 0)
    assert sum(brokers[leader].node.driver.ticker.lateness.counts) > 0


async def test_waiting_fetches_are_counted(brokers):
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    leader = brokers[await brokers.leader("t")]
    fetch = asyncio.ensure_future(leader.fetch("t", 0, 0, max_bytes=1_000, deadline=deadline_in(20_000)))
    await wait_for_figures(leader, lambda seen: seen.waiting_fetches == 1)
    await produce(leader, 1)
    assert (await fetch).batches
    assert (await leader.measuring.read_figures()).waiting_fetches == 0
