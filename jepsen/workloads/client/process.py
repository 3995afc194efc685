"""Client process from start to end.

    ready\n → (stdin: the period) → work → lines of figures at intervals → end

It ends at the end of the period, or when it receives `end`, in both cases after the last answers. It ends at once when
its stdin is closed, because its parent has ended or needs no more; open operations then stay open in the history.
"""

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from jepsen.workloads.adapters.choice import choose_adapter, choose_transactions
from jepsen.workloads.catalogue import WORKLOADS
from jepsen.workloads.client.access import Access
from jepsen.workloads.client.client import Client, print_line
from jepsen.workloads.client.configuration import END, ClientConfiguration, Period, read_period
from jepsen.workloads.client.recording import MERGED_CLOCK, HistoryWriter, clock_since


async def run(config: ClientConfiguration) -> None:
    """Run a client process from start to end. An error in its own code ends it with a traceback."""
    loop = asyncio.get_running_loop()
    broken: asyncio.Future[None] = loop.create_future()
    loop.set_exception_handler(lambda _loop, context: _set_broken(broken, context))
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin.buffer)
    history = HistoryWriter(config.history, clock_since(config.epoch_ns))
    try:
        async with Access(config.addresses) as access:
            client = Client(config, access, choose_adapter(config, access), history, choose_transactions)
            try:
                WORKLOADS[config.workload].begin(client)
                print_line(b"ready")
                line = await orders.readline()
                if line:
                    await _wait_first(_work(client, read_period(line)), _listen(orders, client), _raise_broken(broken))
            finally:
                await client.close()
    finally:
        history.close()


async def _work(client: Client, period: Period) -> None:
    """Let the client send requests in its period, whose times are by `MERGED_CLOCK`."""
    loop = asyncio.get_running_loop()
    ahead_s = loop.time() - MERGED_CLOCK() / 1e9
    await asyncio.sleep(max(0.0, period.begin_ns / 1e9 + ahead_s - loop.time()))
    await client.work(period.end_ns / 1e9 + ahead_s)


async def _listen(orders: asyncio.StreamReader, client: Client) -> None:
    """Read lines from the runner until the pipe is closed."""
    while line := await orders.readline():
        assert line == END, f"an order that no client knows: {line!r}"
        client.end()


async def _raise_broken(broken: "asyncio.Future[None]") -> None:
    """Wait for the error of a broken client, and raise it."""
    await broken


def _set_broken(broken: "asyncio.Future[None]", context: dict[str, Any]) -> None:
    """End the client with the error that the event loop reported."""
    if not broken.done():
        broken.set_exception(context.get("exception") or RuntimeError(context["message"]))


async def _wait_first(*each: Coroutine[Any, Any, None]) -> None:
    """Wait for the first coroutine to end, cancel the others, and raise its error."""
    tasks = [asyncio.ensure_future(one) for one in each]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    for task in pending:
        with suppress(asyncio.CancelledError):
            await task
    for task in done:
        task.result()
