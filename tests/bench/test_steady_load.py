"""Writes that are retried until their deadlines, against a broker that refuses, does not answer, or accepts them."""

import asyncio
from typing import ClassVar

import pytest

from bench import steady_load as steady
from bench.steady_load import SteadyLoad
from raftlog.client import Produced
from raftlog.errors import OutcomeUnknown, Unavailable
from raftlog.types import Offset, TopicPartition
from tests.waiting import until

PLACE = TopicPartition("t", 0)


class Broker:
    """Stand-in for a broker: `script` has the results of the first attempts; all later attempts succeed."""

    script: ClassVar[list[Exception]] = []
    taken: ClassVar[int] = 0

    def __init__(self, addresses: list[str]) -> None:
        assert addresses

    async def produce_batches(self, topic: str, partition: int, body: bytes, *, timeout_ms: int) -> Produced:
        assert (topic, partition) == PLACE
        assert timeout_ms > 0
        if Broker.script:
            raise Broker.script.pop(0)
        Broker.taken += 1
        return Produced(Offset(Broker.taken - 1), Offset(Broker.taken))

    async def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> None:
    Broker.script, Broker.taken = [], 0
    monkeypatch.setattr(steady, "BrokerClient", Broker)
    monkeypatch.setattr(steady, "PAUSE_S", 0.001)


async def test_attempts_are_counted_by_result() -> None:
    Broker.script = [Unavailable("not now"), OutcomeUnknown("who knows"), Unavailable("not now")]
    async with SteadyLoad(["a:1"], [PLACE], interval_s=0.001) as load:
        await load.wait_for_more(3)
    report = load.report()
    assert (report.failed, report.refused, report.unknown) == (0, 2, 1)
    assert report.reasons == {"Unavailable: not now": 2, "OutcomeUnknown: who knows": 1}
    assert report.written == Broker.taken
    assert [report.acknowledged[PLACE, Offset(offset)] for offset in range(3)] == [0, 1, 2]
    assert 0 < report.longest_gap_s == report.gaps_s[PLACE]


async def test_a_write_that_is_never_accepted_fails_at_its_deadline() -> None:
    Broker.script = [Unavailable("not now")] * 1_000
    async with SteadyLoad(["a:1"], [PLACE], interval_s=0.001, deadline_s=0.01) as load:
        await until(lambda: load.report().failed)
    assert load.report().written == 0


async def test_one_offset_for_two_records_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    async def return_offset_zero(self: Broker, *_: object, **__: object) -> Produced:
        return Produced(Offset(0), Offset(1))

    monkeypatch.setattr(Broker, "produce_batches", return_offset_zero)
    load = SteadyLoad(["a:1"], [PLACE], interval_s=0.001)
    async with asyncio.timeout(5):
        await load.__aenter__()
        await asyncio.wait(load._tasks)
    with pytest.raises(AssertionError, match="was acknowledged for 0 and for 1"):
        await load.__aexit__()
