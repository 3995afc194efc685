"""Java process that executes the calls of transactional clients, one call or answer a line.

It ends when its standard input is closed, so also when this process is killed."""

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from clients.java import java
from clients.packages import jars, java_classes
from raftlog.errors import Unavailable

_SOURCE: Final = Path(__file__).with_name("java") / "TransactionalClients.java"
_LINE_BYTES_MAX: Final = 1 << 24
_END_S_MAX: Final = 2.0


def java_command() -> list[str]:
    """Return the command line of the Java program; install and compile it if necessary. Raises `NotInstalled`."""
    libraries = jars("kafka-clients-4")
    return java(libraries, _SOURCE.stem, classes=java_classes(_SOURCE, libraries))


class JavaProcess:
    """Process of the Java program; the first call starts it."""

    def __init__(self, command: Sequence[str], bootstrap: str) -> None:
        self._command, self._environment = command, {**os.environ, "BOOTSTRAP": bootstrap}
        self._starting: asyncio.Task[Process] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._answers: dict[int, asyncio.Future[list[str]]] = {}
        self._ids, self._names = count(1), count(1)
        self._end: str | None = None
        """Reason why the process executes no more calls; None before its end."""

    def new_name(self) -> str:
        """Return an unused name for a client."""
        return f"java-{next(self._names)}"

    async def call(self, client: str, verb: str, *arguments: str | int) -> list[str]:
        """Execute a call of a client and return its results.

        Raises `Unavailable`: its text begins with the class of the exception in Java, or the process has ended."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        process = await asyncio.shield(self._starting)
        assert process.stdin is not None, "its stdin is a pipe"
        if self._end is not None or process.stdin.is_closing():
            raise Unavailable(self._end or "the Java process ends")
        number = next(self._ids)
        answer: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        process.stdin.write("\t".join(map(str, (number, client, verb, *arguments))).encode() + b"\n")
        return await answer

    async def _start(self) -> Process:
        """Start the process, and a task that reads its answers."""
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, env=self._environment, limit=_LINE_BYTES_MAX
        )
        self._reading = asyncio.create_task(self._read(process))
        return process

    async def _read(self, process: Process) -> None:
        """Complete calls by their answers until the process ends, then fail all open ones.

        An end that `close` did not order is reported to the event loop."""
        assert process.stdout is not None, "its stdout is a pipe"
        while line := await process.stdout.readline():
            number, kind, *fields = line.decode().removesuffix("\n").split("\t")
            answer = self._answers.pop(int(number))
            if answer.done():  # its caller was cancelled
                continue
            if kind == "ok":
                answer.set_result(fields)
            else:
                answer.set_exception(Unavailable(": ".join(fields)))
        code = await process.wait()
        if self._end is None:
            self._end = f"the Java process ended with {code}"
            asyncio.get_running_loop().call_exception_handler({"message": self._end})
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(Unavailable(self._end))
        self._answers.clear()

    async def close(self) -> None:
        """End the process; kill it if it does not end soon."""
        if self._starting is None:
            return
        process = await self._starting
        assert process.stdin is not None, "its stdin is a pipe"
        assert self._reading is not None, "it began with the process"
        self._end = self._end or "the Java process was closed"
        process.stdin.close()
        try:
            await asyncio.wait_for(asyncio.shield(self._reading), _END_S_MAX)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await self._reading
