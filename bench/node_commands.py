"""Protocol of node processes under measurement: each command and each answer is one line of JSON.

    ["load", {"seconds": 4}]  →  {"answer": {…}}          in their order; other lines of a node have another key

A node's commands are the methods of one object. Called by `cluster_node` and `broker_node`."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from bench.syncs import SyncCount, count_syncs
from raftlog.runtime.heap import Collections

_STALL_POLL_S = 0.005


class StallTimer:
    """Timer that measures the longest time for which the event loop was held."""

    def __init__(self) -> None:
        self._longest_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_STALL_POLL_S, self._poll, loop, time.monotonic())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _poll(self, loop: asyncio.AbstractEventLoop, began: float) -> None:
        now = time.monotonic()
        self._longest_s = max(self._longest_s, now - began - _STALL_POLL_S)
        self._timer = loop.call_later(_STALL_POLL_S, self._poll, loop, now)

    def take_longest_s(self) -> float:
        """Return the longest stall since the last call, in seconds."""
        longest, self._longest_s = self._longest_s, 0.0
        return longest


def process_costs() -> dict[str, float]:
    """Return the CPU seconds so far, resident memory, and open files of this process."""
    times = os.times()
    resident = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line)
    return {
        "cpu_s": times.user + times.system,
        "rss_mib": int(resident.split()[1]) / 1024,
        "files": len(list(Path("/proc/self/fd").iterdir())),
    }


def print_answer(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


async def _serve(make: Callable[[SyncCount], Any]) -> None:
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    Collections().begin()
    with count_syncs() as syncs:
        commands = make(syncs)
        while line := await reader.readline():
            name, arguments = json.loads(line)
            print_answer({"answer": await getattr(commands, name)(**arguments) or {}})


def run(make: Callable[[SyncCount], Any]) -> None:
    """Execute commands from stdin until its end; `make(syncs)` returns the object with the commands."""
    uvloop.run(_serve(make))
