"""Queue of reads of state: an error in one replica delays no other."""

import asyncio

from raftlog.errors import RaftlogError
from raftlog.partitions.replica.read_queue import ReadQueue


class FakeState:
    """Fake of a state with `pages` pages to read, or with an error."""

    def __init__(self, pages: int, error: Exception | None = None) -> None:
        self.pages, self.error = pages, error
        self.is_read = asyncio.Event()

    @property
    def is_behind(self) -> bool:
        return self.pages > 0

    def read_some(self) -> None:
        if self.error is not None:
            raise self.error
        self.pages -= 1
        if not self.pages:
            self.is_read.set()


async def test_an_unreadable_partition_delays_no_other_load() -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    unforeseen = AssertionError("an offset that is nowhere")
    first, second, third = FakeState(1, RaftlogError("damaged")), FakeState(1, unforeseen), FakeState(500)
    loading = ReadQueue()
    for book in (first, second, third):
        loading.enqueue(book)
    await third.is_read.wait()
    assert reported == [unforeseen]
    later = FakeState(1)
    loading.enqueue(later)
    await later.is_read.wait()
