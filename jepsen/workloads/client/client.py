"""Client: the state that its roles share, and their activities. `process` runs it.

A workload's `begin` adds the roles; each activity has a share of the client's rate.
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

from jepsen.workloads.adapters.port import Adapter, OverlappingSender
from jepsen.workloads.adapters.transactional import TransactionalLibrary
from jepsen.workloads.client.access import Access
from jepsen.workloads.client.configuration import ClientConfiguration
from jepsen.workloads.client.numbering import PER_CLIENT, ProcessNumberPool, pace, permanent_process
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.client.values import values_of
from jepsen.workloads.roles.load_share import LoadShare
from jepsen.workloads.roles.offset_queries import Committer, list_offsets
from jepsen.workloads.roles.reader import Reader

READERS: Final = 4
"""Number of readers of a client. Each reads some of the partitions, so a silent node does not delay all of them."""
FOLLOWED_SHARE: Final = 1 / 3
SEND_SHARE, POLL_SHARE, LIST_SHARE, COMMIT_SHARE = 0.6, 0.28, 0.08, 0.04
"""Shares of the rate. They add up to one."""
_FIGURES_S: Final = 0.5
_LAST_ANSWERS_S: Final = 8.0
"""Seconds to wait for the last answers; more than the longest deadline of a request and its additional wait."""
_CRASH_S_MAX: Final = 0.02
_LISTER: Final = 100
"""Process number of the lister of node 0; the others follow."""
_COMMITTER: Final = 99

RoleRun = Callable[[float], Awaitable[None]]
"""Function that runs a role until a time of the event loop, in seconds."""


class Client:
    """Test client of one process, created inside a running event loop. Add its roles before `work`."""

    def __init__(
        self,
        config: ClientConfiguration,
        access: Access,
        adapter: Callable[[LoadShare], Adapter],
        history: HistoryWriter,
        transactions: Callable[[ClientConfiguration], TransactionalLibrary],
    ) -> None:
        """Create a client without roles.

        `adapter` and `transactions` create the client libraries that the roles use."""
        self._new_transactions = transactions
        self._transactions: TransactionalLibrary | None = None
        self.access, self.history = access, history
        self.addresses = list(config.addresses.values())
        self.partitions = config.partitions
        self.random = Random(config.seed * 1_000_003 + config.number)  # noqa: S311 - repeatable, not secret
        self.number, self.clients = config.number, config.clients
        self.senders = ProcessNumberPool(config.number * PER_CLIENT)
        self.values = iter(values_of(config.number))
        self.share = LoadShare(history, self.partitions, self.values, self.senders, self.random)
        self.adapter = adapter(self.share)
        self._config = config
        self._roles: list[RoleRun] = []
        self._closings: list[RoleRun] = []
        self._producers: list[OverlappingSender] = []
        self._requests: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    def transactions(self) -> TransactionalLibrary:
        """Create the transactions of the client library."""
        self._transactions = self._new_transactions(self._config)
        return self._transactions

    def process(self, number: int) -> int:
        """Return the number of a role's process in the whole test."""
        return permanent_process(self._config.number, number)

    def new_random(self) -> Random:
        """Return a new random generator, for a role whose draws are independent of other roles."""
        return Random(self.random.random())  # noqa: S311 - repeatable, not secret

    # roles

    def add_role(self, run: RoleRun) -> None:
        """Add a coroutine function that `work` runs, with the end of the load as argument."""
        self._roles.append(run)

    def close_at_end(self, close: RoleRun) -> None:
        """Register a function to call after the last answers, with the remaining seconds as argument."""
        self._closings.append(close)

    def add_producer(self, producer: OverlappingSender, share: float = SEND_SHARE, *, crashes: float = 0) -> None:
        """Add a role that sends at random moments; `crashes` is the share of requests cancelled before their answer."""
        self._producers.append(producer)

        async def send(until_s: float) -> None:
            """Send requests at the producer's share of the rate until `until_s`; cancel some of them."""
            async for _ in pace(self.random, self._config.rate * share, until_s):
                request = asyncio.create_task(producer.send())
                self._requests.add(request)
                request.add_done_callback(self._on_sent)
                if crashes and self.random.random() < crashes:
                    asyncio.get_running_loop().call_later(self.random.uniform(0, _CRASH_S_MAX), request.cancel)

        self.add_role(send)

    def add_readers(self, share: float = POLL_SHARE) -> list[Reader]:
        """Add readers, each of some of the partitions, and return them."""
        readers = []
        for number in range(READERS):
            followed = self.random.sample(self.partitions, math.ceil(FOLLOWED_SHARE * len(self.partitions)))
            readers.append(
                Reader(self.adapter.access, self.history, self.process(number), dict.fromkeys(followed, 0), self.random)
            )
            self.add_repeated_step(readers[-1].step, share / READERS)
        return readers

    def add_listers(self, share: float = LIST_SHARE) -> None:
        """Add a role for each node that lists its offsets, in a process of its own in the history."""
        for node in self.access.nodes:
            self.add_repeated_step(partial(self._list_offsets, node), share / len(self.access.nodes))

    async def _list_offsets(self, node: int) -> None:
        """List the offsets of a random partition through the node, linearizably in half of the cases."""
        place, process = self.random.choice(self.partitions), self.process(_LISTER + node)
        await list_offsets(self.adapter.access, self.history, process, node, place, self.random.random() < 0.5)

    def add_committer(self, reader: Reader, share: float = COMMIT_SHARE) -> None:
        """Add a role that commits the reader's positions at random moments."""
        committer = Committer(self.adapter.access, self.history, self.process(_COMMITTER), self.random)
        self.add_repeated_step(lambda: committer.step(reader.positions), share)

    def add_repeated_step(self, step: Callable[[], Awaitable[None]], share: float) -> None:
        """Add a role that runs the step at random moments, one at a time."""

        async def run(until_s: float) -> None:
            """Repeat the step at its share of the rate, until a time of the loop."""
            async for _ in pace(self.random, self._config.rate * share, until_s):
                await step()

        self.add_role(run)

    # work

    async def work(self, until_s: float) -> None:
        """Run all roles of this client until `until_s` (event-loop time), or until `end` is called."""
        living, ended = asyncio.create_task(self._run_roles(until_s)), asyncio.create_task(self._ended.wait())
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
        """Make `work` end now: no further operation begins."""
        self._ended.set()

    async def close(self) -> None:
        """Close the client libraries, after `work`."""
        if self._transactions is not None:
            await self._transactions.close()
        await self.adapter.close()

    async def _run_roles(self, until_s: float) -> None:
        """Run all roles, and print figures, until `until_s` (event-loop time)."""
        async with asyncio.TaskGroup() as tasks:
            for run in (*self._roles, self._report_figures):
                tasks.create_task(_run_role(run, until_s))

    def _on_sent(self, request: "asyncio.Task[None]") -> None:
        """Forget a request that has ended; an exception ends the client."""
        self._requests.discard(request)
        if not request.cancelled() and request.exception() is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a producer broke", "exception": request.exception()}
            )

    async def _report_figures(self, until_s: float) -> None:
        """Print figures every `_FIGURES_S` seconds until a time of the loop."""
        loop = asyncio.get_running_loop()
        while loop.time() + _FIGURES_S < until_s:
            await asyncio.sleep(_FIGURES_S)
            self._print_figures()

    def _print_figures(self) -> None:
        """Print the numbers of operations, and the processor time, as one line of JSON."""
        not_offered = sum(producer.not_offered for producer in self._producers)
        figures = {
            "polled": self.history.polled,
            "not_offered": not_offered,
            "cpu_ms": round(time.process_time() * 1e3),
        }
        print_line(orjson.dumps({**self.history.counts, **figures}))


async def _run_role(run: RoleRun, until_s: float) -> None:
    """Run a role until a time of the loop."""
    await run(until_s)


def print_line(line: bytes) -> None:
    """Write a line to standard output at once."""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
