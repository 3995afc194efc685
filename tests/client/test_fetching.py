"""`PartitionFetcher` alone: answers that arrive late."""

import asyncio
from types import SimpleNamespace
from typing import Any

from raftlog.client.answers import Fetched
from raftlog.client.consumers.fetcher import PartitionFetcher
from raftlog.records import build_batch, stamp
from raftlog.types import Offset, Term, TopicPartition

PLACE = TopicPartition("orders", 0)


class Client:
    """Client whose fetches wait for the test to answer them."""

    def __init__(self) -> None:
        self.fetches: list[tuple[int, asyncio.Future[Fetched]]] = []

    async def fetch_batches(self, topic: str, partition: int, offset: Offset, **_: Any) -> Fetched:
        answer: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        self.fetches.append((offset, answer))
        return await answer

    def answer(self, number: int) -> None:
        """Answer a fetch with the ten records from its offset on; a cancelled fetch gets nothing."""
        offset, answer = self.fetches[number]
        batch = build_batch([b"%d" % each for each in range(offset, offset + 10)])
        stamp(batch, Offset(offset), Term(1))
        if not answer.done():
            answer.set_result(Fetched(bytes(batch), Offset(100), Offset(0)))


async def run_pending_tasks() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_answer_from_before_a_seek_is_discarded() -> None:
    """The answer is ahead of the new position, so the records between would be skipped."""
    client: Any = Client()
    settings: Any = SimpleNamespace(
        isolation="read_committed",
        group=None,
        auto_offset_reset="error",
        prefetch_bytes=1 << 20,
        fetch_bytes=1,
        fetch_wait_ms=1,
        give_up_after_s=1,
    )
    fetcher = PartitionFetcher(client, settings, lambda: None)
    fetcher.begin({PLACE: Offset(50)})
    await run_pending_tasks()
    fetcher.seek(PLACE, Offset(0))
    await run_pending_tasks()
    client.answer(0)
    await run_pending_tasks()
    client.answer(1)
    await run_pending_tasks()
    assert [record.offset for record in fetcher.take(10)] == list(range(10))
    await fetcher.end([PLACE])
