"""Programs as users run them, in addition to the load: group members, and a producer that retries for ever."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from jepsen.runner.stage import Stage
from raftlog.client import Producer
from raftlog.errors import RaftlogError

EVERY_S: Final = 0.02
_END_S_MAX: Final = 60.0
_DELIVERY_TIMEOUT_MS: Final = 30_000


@contextmanager
def members(stage: Stage, topic: str, group: str, count: int) -> Iterator[None]:
    """Run `count` processes of `raftlog consume` until the end of the block.

    The block begins when all have joined the group."""
    bootstrap = ",".join(stage.system.client_addresses.values())
    command = [sys.executable, "-P", "-m", "raftlog.cli", "consume", topic, "--group", group, "--bootstrap", bootstrap]
    each = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(count)]  # noqa: S603 - our own program
    try:
        stage.wait_until(
            lambda: (found := find_group(stage, group)) is not None and found[1] == count, f"{count} are in {group}"
        )
        yield
        ended = [process.returncode for process in each if process.poll() is not None]
        stage.expect(not ended, f"no member of {group} ended by itself: {ended}")
    finally:
        for process in each:
            process.kill()
            process.wait()


def find_group(stage: Stage, group: str) -> tuple[int, int] | None:
    """Return a consumer group's generation and number of members; None without an answer, or while it is not stable."""
    for node in stage.nodes:
        status, answer = stage.ask(node, f"/v3/clusters/-/consumer-groups/{group}")
        if status == 200 and answer["state"] == "STABLE":
            status, consumers = stage.ask(node, f"/v3/clusters/-/consumer-groups/{group}/consumers")
            if status == 200:
                return int(answer["generation"]), len(consumers["data"])
    return None


class SteadyProducer:
    """Producer in a thread: sends records one after another until the end of the block, and waits for the last."""

    def __init__(self, stage: Stage, topic: str) -> None:
        """Prepare to send to the topic from a thread with an event loop of its own."""
        self._addresses, self._topic = list(stage.system.client_addresses.values()), topic
        self._thread = threading.Thread(target=lambda: asyncio.run(self._produce()), daemon=True)
        self._is_over = threading.Event()
        self.acknowledged = 0
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the producer, and wait for its last deliveries."""
        self._is_over.set()
        self._thread.join(_END_S_MAX)
        if self._thread.is_alive():
            self.failures.append(f"the producer did not end within {_END_S_MAX:g} s")

    async def _produce(self) -> None:
        """Send a record every `EVERY_S` seconds until stopped; count acknowledged records and collect failures."""
        producer = Producer(self._addresses, linger_ms=0, delivery_timeout_ms=_DELIVERY_TIMEOUT_MS)
        deliveries = []
        while not self._is_over.is_set():
            try:
                deliveries.append(await producer.send(self._topic, b"steady"))
            except RaftlogError as error:
                self.failures.append(str(error))
            await asyncio.sleep(EVERY_S)
        for delivery in deliveries:
            try:
                await delivery
            except RaftlogError as error:
                self.failures.append(str(error))
            else:
                self.acknowledged += 1
        await producer.close()
