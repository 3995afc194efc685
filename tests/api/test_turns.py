"""Work of many small pieces leaves the loop to other tasks in between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from raftlog.runtime import slices
from tests.api.conftest import Api
from tests.api.raw import exchange, request_head

PIECES = 60


class Turns:
    """Count of the turns of the loop."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


@asynccontextmanager
async def counted_turns() -> AsyncIterator[Turns]:
    turns = Turns()
    task = asyncio.create_task(turns.run())
    try:
        yield turns
    finally:
        task.cancel()


@pytest.fixture(autouse=True)
def _short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """End every slice after its first piece."""
    monkeypatch.setattr(slices, "SLICE_S", 0.0)


async def test_requests_that_were_sent_at_once_leave_turns_to_others(api: Api) -> None:
    one = request_head("GET", "/brokers", "Host: 127.0.0.1")
    last = request_head("GET", "/brokers", "Host: 127.0.0.1", "Connection: close")
    async with counted_turns() as turns:
        answers = await exchange(api.address, one * (PIECES - 1) + last)
        assert turns.count >= PIECES
    assert answers.count(b"HTTP/1.1 200 OK") == PIECES


@pytest.mark.parametrize("path", ["/topics/t/partitions/0/records?offset=0", "/consumers/g/instances/i/records"])
async def test_the_records_of_many_batches_leave_turns_to_others(api: Api, path: str) -> None:
    await api.create_topic()
    for number in range(PIECES):
        await api.post("/topics/t", {"records": [{"value": number}]})
    if path.startswith("/consumers"):
        assert (await api.post("/consumers/g", {"name": "i", "format": "json", "auto.offset.reset": "earliest"}))[
            0
        ] == 200
        assert (await api.post("/consumers/g/instances/i/subscription", {"topics": ["t"]}))[0] == 204
    async with counted_turns() as turns:
        status, records = await api.get(path)
        assert turns.count >= PIECES
    assert (status, [each["value"] for each in records]) == (200, list(range(PIECES)))
