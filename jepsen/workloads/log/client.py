"""One client process: its producers, readers, listers, and committers or members of groups, from begin to end.

    ready\n → (stdin: the period) → work → a line of figures now and then → end

It ends at the end of the period, after the answers that it waits for, or as soon as its stdin is closed: then whoever
started it is gone, or wants no more. What is under way then stays open in the history.
"""

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import suppress
from random import Random
from typing import Any, Final

import orjson

from jepsen.workloads.log.access import Access
from jepsen.workloads.log.asking import Committer, list_offsets
from jepsen.workloads.log.belonging import Member
from jepsen.workloads.log.configuration import ClientConfiguration, Period, read_period
from jepsen.workloads.log.consuming import GroupReader
from jepsen.workloads.log.delivering import Deliverer
from jepsen.workloads.log.processes import Senders, other_process, pace
from jepsen.workloads.log.reading import Reader
from jepsen.workloads.log.recording import MERGED_CLOCK, HistoryWriter, clock_since
from jepsen.workloads.log.sending import Producer
from jepsen.workloads.log.values import values_of

READERS: Final = 2
SEND_SHARE, POLL_SHARE, LIST_SHARE, COMMIT_SHARE = 0.6, 0.28, 0.08, 0.04
"""Of the rate. They add up to one."""
_FIGURES_S: Final = 0.5
_LAST_ANSWERS_S: Final = 8.0
"""More than the longest deadline of a request and its grace."""
_LISTER: Final = 100
"""Process number of the lister of node 0; the others follow."""
_COMMITTER: Final = 99
_MEMBER: Final = 200
"""Process number of the first member of a group."""
MEMBERS: Final = 2
IDEMPOTENT: Final = ("idempotent", "compaction")
"""Workloads in which everything is written by `raftlog.client.Producer`."""


class Client:
    """Made inside a running event loop."""

    def __init__(self, config: ClientConfiguration, access: Access, history: HistoryWriter) -> None:
        self._config, self._access, self._history = config, access, history
        random = Random(config.seed * 1_000_003 + config.number)  # noqa: S311 - repeatable, not secret
        self._random = random
        senders = Senders(config.number)
        values = iter(values_of(config.number))
        self._producer: Producer | Deliverer
        if config.workload in IDEMPOTENT:
            is_keyed = config.workload == "compaction"
            addresses = list(config.addresses.values())
            places = config.partitions
            self._producer = Deliverer(addresses, history, places, values, senders, random, is_keyed=is_keyed)
        else:
            self._producer = Producer(access, history, config.partitions, values, senders, random)
        self._requests: set[asyncio.Task[None]] = set()

    async def work(self, until_s: float) -> None:
        """Everything that this client does, until that time of the loop."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._send(until_s))
            readers = []
            for number in range(READERS):
                process = other_process(self._config.number, number)
                reader = Reader(self._access, self._history, process, self._config.partitions, self._random)
                readers.append(reader)
                tasks.create_task(self._read(reader, until_s))
            tasks.create_task(self._list(until_s))
            if self._config.workload == "groups":
                for number in range(MEMBERS):
                    tasks.create_task(self._member(number).live(until_s))
                tasks.create_task(self._group_reader().live(until_s))
            else:
                tasks.create_task(self._commit(readers[0], until_s))
            tasks.create_task(self._tell(until_s))
        if self._requests:
            await asyncio.wait(self._requests, timeout=_LAST_ANSWERS_S)
        if isinstance(self._producer, Deliverer):
            await self._producer.close(_LAST_ANSWERS_S)
        self.say_figures()

    async def _send(self, until_s: float) -> None:
        async for _ in pace(self._random, self._config.rate * SEND_SHARE, until_s):
            request = asyncio.create_task(self._producer.send())
            self._requests.add(request)
            request.add_done_callback(self._sent)

    def _sent(self, request: "asyncio.Task[None]") -> None:
        self._requests.discard(request)
        if not request.cancelled() and request.exception() is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a producer broke", "exception": request.exception()}
            )

    async def _read(self, reader: Reader, until_s: float) -> None:
        async for _ in pace(self._random, self._config.rate * POLL_SHARE / READERS, until_s):
            await reader.step()

    async def _list(self, until_s: float) -> None:
        async for _ in pace(self._random, self._config.rate * LIST_SHARE, until_s):
            node = self._random.choice(self._access.nodes)
            process = other_process(self._config.number, _LISTER + node)
            place = self._random.choice(self._config.partitions)
            linearizable = self._random.random() < 0.5
            await list_offsets(self._access, self._history, process, node, place, linearizable)

    async def _commit(self, reader: Reader, until_s: float) -> None:
        process = other_process(self._config.number, _COMMITTER)
        committer = Committer(self._access, self._history, process, self._random)
        async for _ in pace(self._random, self._config.rate * COMMIT_SHARE, until_s):
            await committer.step(reader.positions)

    def _member(self, number: int) -> Member:
        config = self._config
        topics: dict[str, int] = {}
        for place in config.partitions:
            topics[place.topic] = max(topics.get(place.topic, 0), place.partition + 1)
        process = other_process(config.number, _MEMBER + number)
        random = Random(self._random.random())  # noqa: S311 - repeatable, not secret
        return Member(list(config.addresses.values()), self._access, self._history, process, topics, random)

    def _group_reader(self) -> GroupReader:
        config = self._config
        topics = sorted({place.topic for place in config.partitions})
        process = other_process(config.number, _MEMBER + MEMBERS)
        return GroupReader(list(config.addresses.values()), self._history, process, topics, self._random)

    async def _tell(self, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() + _FIGURES_S < until_s:
            await asyncio.sleep(_FIGURES_S)
            self.say_figures()

    def say_figures(self) -> None:
        history = self._history
        figures = {**history.counts, "polled": history.polled, "not_offered": self._producer.not_offered}
        say(orjson.dumps(figures))


def say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


async def run(config: ClientConfiguration) -> None:
    """The whole life of a client process. An error in the client itself ends it with a traceback."""
    loop = asyncio.get_running_loop()
    broken: asyncio.Future[None] = loop.create_future()
    loop.set_exception_handler(lambda _loop, context: _note_broken(broken, context))
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin.buffer)
    history = HistoryWriter(config.history, clock_since(config.epoch_ns))
    try:
        async with Access(config.addresses) as access:
            client = Client(config, access, history)
            say(b"ready")
            line = await orders.readline()
            if line:
                await _first(_work(client, read_period(line)), _gone(orders), _raised(broken))
    finally:
        history.close()


async def _work(client: Client, period: Period) -> None:
    loop = asyncio.get_running_loop()
    ahead_s = loop.time() - MERGED_CLOCK() / 1e9
    await asyncio.sleep(max(0.0, period.begin_ns / 1e9 + ahead_s - loop.time()))
    await client.work(period.end_ns / 1e9 + ahead_s)


async def _gone(orders: asyncio.StreamReader) -> None:
    while await orders.readline():
        pass


async def _raised(broken: "asyncio.Future[None]") -> None:
    await broken


def _note_broken(broken: "asyncio.Future[None]", context: dict[str, Any]) -> None:
    if not broken.done():
        broken.set_exception(context.get("exception") or RuntimeError(context["message"]))


async def _first(*each: Coroutine[Any, Any, None]) -> None:
    """Wait for the first to end, cancel the others, and raise what it raised."""
    tasks = [asyncio.ensure_future(one) for one in each]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    for task in pending:
        with suppress(asyncio.CancelledError):
            await task
    for task in done:
        task.result()
