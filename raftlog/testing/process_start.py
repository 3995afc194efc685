"""Start of a cluster's processes: by default a new interpreter for each.

A program that starts very many processes can set a cheaper function; it must behave like `subprocess.Popen`."""

import subprocess
from collections.abc import Callable
from typing import IO, Protocol


class ProcessHandle(Protocol):
    """Part of `subprocess.Popen` that is used here."""

    pid: int

    @property
    def stdout(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


start: Callable[..., ProcessHandle] = subprocess.Popen
"""Starter of processes, with the arguments of `subprocess.Popen`."""
