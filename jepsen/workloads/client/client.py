"""One client: the state that its roles share, and their activities. `process` decides when it works.

A workload's `begin` says which roles there are; each activity has a share of the client's rate.
"""

import asyncio
import math
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Final

import orjson

from jepsen.workloads.client.access import Access
from jepsen.workloads.client.configuration import ClientConfiguration
from jepsen.workloads.client.numbering import PER_CLIENT, Senders, other_process, pace
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.client.values import values_of
from jepsen.workloads.faces.port import Face, Sends
from jepsen.workloads.roles.load_share import LoadShare
from jepsen.workloads.roles.offset_queries import Committer, list_offsets
from jepsen.workloads.roles.reader import Reader

READERS: Final = 4
"""Each of a part of the partitions: one whose node does not answer waits, and the others go on."""
FOLLOWED_SHARE: Final = 1 / 3
SEND_SHARE, POLL_SHARE, LIST_SHARE, COMMIT_SHARE = 0.6, 0.28, 0.08, 0.04
"""Shares of the rate. They add up to one."""
_FIGURES_S: Final = 0.5
_LAST_ANSWERS_S: Final = 8.0
"""More than the longest deadline of a request and its grace."""
_CRASH_S_MAX: Final = 0.02
_LISTER: Final = 100
"""Process number of the lister of node 0; the others follow."""
_COMMITTER: Final = 99

Life = Callable[[float], Awaitable[None]]
"""Something that goes on until a time of the loop."""


class Client:
    """Made inside a running event loop. Its roles are begun before `work`."""

    def __init__(
        self, config: ClientConfiguration, access: Access, face: Callable[[LoadShare], Face], history: HistoryWriter
    ) -> None:
        self.access, self.history = access, history
        self.addresses = list(config.addresses.values())
        self.partitions = config.partitions
        self.random = Random(config.seed * 1_000_003 + config.number)  # noqa: S311 - repeatable, not secret
        self.number, self.clients = config.number, config.clients
        self.senders = Senders(config.number * PER_CLIENT)
        self.values = iter(values_of(config.number))
        self.share = LoadShare(history, self.partitions, self.values, self.senders, self.random)
        self.face = face(self.share)
        self._config = config
        self._lives: list[Life] = []
        self._closings: list[Life] = []
        self._producers: list[Sends] = []
        self._requests: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    def process(self, number: int) -> int:
        """Return the number of a role's process in the whole test."""
        return other_process(self._config.number, number)

    def new_random(self) -> Random:
        """Return a random generator for a role that draws in an order of its own."""
        return Random(self.random.random())  # noqa: S311 - repeatable, not secret

    # roles

    def live(self, life: Life) -> None:
        self._lives.append(life)

    def close_at_end(self, close: Life) -> None:
        """Register a function that is called after the last answers, with the seconds that are left."""
        self._closings.append(close)

    def produce(self, producer: Sends, share: float = SEND_SHARE, *, crashes: float = 0) -> None:
        """Send at random moments; `crashes` is the share of requests whose sender dies before its answer."""
        self._producers.append(producer)

        async def send(until_s: float) -> None:
            async for _ in pace(self.random, self._config.rate * share, until_s):
                request = asyncio.create_task(producer.send())
                self._requests.add(request)
                request.add_done_callback(self._sent)
                if crashes and self.random.random() < crashes:
                    asyncio.get_running_loop().call_later(self.random.uniform(0, _CRASH_S_MAX), request.cancel)

        self.live(send)

    def read(self, share: float = POLL_SHARE) -> list[Reader]:
        readers = []
        for number in range(READERS):
            followed = self.random.sample(self.partitions, math.ceil(FOLLOWED_SHARE * len(self.partitions)))
            readers.append(
                Reader(self.face.access, self.history, self.process(number), dict.fromkeys(followed, 0), self.random)
            )
            self.repeat(readers[-1].step, share / READERS)
        return readers

    def list_offsets(self, share: float = LIST_SHARE) -> None:
        """List offsets at each node, in a process per node."""
        for node in self.access.nodes:
            self.repeat(partial(self._list_offsets, node), share / len(self.access.nodes))

    async def _list_offsets(self, node: int) -> None:
        place, process = self.random.choice(self.partitions), self.process(_LISTER + node)
        await list_offsets(self.face.access, self.history, process, node, place, self.random.random() < 0.5)

    def commit(self, reader: Reader, share: float = COMMIT_SHARE) -> None:
        """Commit the reader's positions from time to time."""
        committer = Committer(self.face.access, self.history, self.process(_COMMITTER), self.random)
        self.repeat(lambda: committer.step(reader.positions), share)

    def repeat(self, step: Callable[[], Awaitable[None]], share: float) -> None:
        """Run the step at random moments, one at a time."""

        async def live(until_s: float) -> None:
            async for _ in pace(self.random, self._config.rate * share, until_s):
                await step()

        self.live(live)

    # work

    async def work(self, until_s: float) -> None:
        """Run all roles of this client until that time of the event loop, or until `end`."""
        living, ended = asyncio.create_task(self._live(until_s)), asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait((living, ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            living.cancel()  # answers under way stay open
            with suppress(asyncio.CancelledError):
                await living
        try:
            if self._requests:
                await asyncio.wait(self._requests, timeout=_LAST_ANSWERS_S)
            for close in self._closings:
                await close(_LAST_ANSWERS_S)
            self._print_figures()
        finally:
            for request in self._requests:
                request.cancel()
            await asyncio.gather(*self._requests, return_exceptions=True)  # they write into the history to the end

    def end(self) -> None:
        """Begin nothing any more."""
        self._ended.set()

    async def _live(self, until_s: float) -> None:
        async with asyncio.TaskGroup() as tasks:
            for life in (*self._lives, self._tell):
                tasks.create_task(_whole(life, until_s))

    def _sent(self, request: "asyncio.Task[None]") -> None:
        self._requests.discard(request)
        if not request.cancelled() and request.exception() is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a producer broke", "exception": request.exception()}
            )

    async def _tell(self, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() + _FIGURES_S < until_s:
            await asyncio.sleep(_FIGURES_S)
            self._print_figures()

    def _print_figures(self) -> None:
        not_offered = sum(producer.not_offered for producer in self._producers)
        figures = {
            "polled": self.history.polled,
            "not_offered": not_offered,
            "cpu_ms": round(time.process_time() * 1e3),
        }
        say(orjson.dumps({**self.history.counts, **figures}))


async def _whole(life: Life, until_s: float) -> None:
    await life(until_s)


def say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
