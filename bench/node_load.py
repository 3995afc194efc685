"""Load by tasks in a node's process; each task writes one value after another and waits for each."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from bench.samples import percentile
from bench.syncs import SyncCount

KEY_BYTES = 20
"""Bytes at a value's beginning that distinguish it from all others."""
Write = Callable[[int, bytes], Awaitable[object]]
"""Function that writes a value for a writer, given by number; it returns when the value is acknowledged, or raises."""


def value(prefix: bytes, number: int, size: int) -> bytes:
    """Return a value that no other write uses."""
    return (prefix + b"%010d/" % number).ljust(size, b"x")


class Load:
    """Load on a node; `number` distinguishes its values from those of other loads, also on other nodes."""

    def __init__(self, in_flight: int, seconds: float, number: int, syncs: SyncCount) -> None:
        self._in_flight, self._number, self._syncs = in_flight, number, syncs
        self._seconds = seconds
        self._until = 0.0
        self._latencies: list[float] = []

    async def run(self, write: Write, size: int) -> dict[str, float]:
        """Run all writers for the given time, and return the figures."""
        begin, cpu, synced = time.perf_counter(), time.process_time(), self._syncs.total
        self._until = begin + self._seconds
        await asyncio.gather(*(self._write(write, writer, size) for writer in range(self._in_flight)))
        elapsed = time.perf_counter() - begin
        latencies = sorted(self._latencies)
        return {
            "operations": len(latencies),
            "per_s": len(latencies) / elapsed,
            "mb_per_s": len(latencies) * size / elapsed / 1e6,
            "p50_ms": percentile(latencies, 50) * 1000,
            "p99_ms": percentile(latencies, 99) * 1000,
            "cpu_share": (time.process_time() - cpu) / elapsed,
            "syncs": self._syncs.total - synced,
        }

    async def _write(self, write: Write, writer: int, size: int) -> None:
        prefix = b"%04d/%04d/" % (self._number, writer)
        number = 0
        now = time.perf_counter()
        while now < self._until:
            await write(writer, value(prefix, number, size))
            number += 1
            after = time.perf_counter()
            self._latencies.append(after - now)
            now = after
