"""Clients without a broker: a warning after a second, an error after a bounded time."""

import asyncio
import logging

import pytest

from raftlog.client import BrokerClient, Consumer, Producer
from raftlog.client.outage import WARN_AFTER_S, Outage
from raftlog.errors import InvalidArgument, Unavailable
from tests.waiting import until


async def wait_for_warning(caplog: pytest.LogCaptureFixture) -> str:
    """Wait for the first warning of the client; return its message."""

    def list_warnings() -> list[str]:
        return [
            record.getMessage()
            for record in caplog.records
            if record.levelno == logging.WARNING and record.name == "raftlog.client"
        ]

    return (await until(list_warnings))[0]


@pytest.mark.parametrize("group", [None, "billing"])
async def test_a_consumer_without_a_broker_warns_and_raises(
    free_address: str, caplog: pytest.LogCaptureFixture, group: str | None
) -> None:
    async with Consumer(free_address, "orders", group=group, give_up_after_s=WARN_AFTER_S + 0.5) as consumer:
        polling = asyncio.ensure_future(consumer.poll(timeout_ms=60_000))
        assert free_address in await wait_for_warning(caplog)
        with pytest.raises(Unavailable, match="the address is right"):
            await asyncio.wait_for(polling, 10)
        assert [record.levelno for record in caplog.records].count(logging.WARNING) == 1


async def test_a_producer_without_a_broker_warns(free_address: str, caplog: pytest.LogCaptureFixture) -> None:
    producer = Producer(free_address, delivery_timeout_ms=1500)
    with pytest.raises(Unavailable, match="the address is right"):
        await producer.send("orders", b"v")
    assert "metadata of topic orders: waiting for up to 1.5 s" in await wait_for_warning(caplog)
    await producer.close()


async def test_a_new_outage_after_a_success_starts_its_time_anew(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage("a request", limit_s=0.0)
    outage.end()
    with pytest.raises(Unavailable, match="down"):
        await outage.pause(Unavailable("down"))
    assert not caplog.records


def test_addresses_are_parsed_or_refused_with_a_hint() -> None:
    async def open_and_close(bootstrap: object) -> None:
        await BrokerClient(bootstrap).close()  # type: ignore[arg-type]

    for good in ("127.0.0.1:8082", "127.0.0.1:8082, localhost", ["localhost"], ("::1:8082",)):
        asyncio.run(open_and_close(good))
    for bad, hint in (
        (5, "int"),
        (b"127.0.0.1:8082", "bytes"),
        ("", "HOST:PORT"),
        ([], "HOST:PORT"),
        ([5], "a str"),
        (":", "':'"),
    ):
        with pytest.raises(InvalidArgument, match=hint):
            asyncio.run(open_and_close(bad))
