"""Start of a cluster's processes: by default a new interpreter for each.

A program that starts very many processes can set a cheaper function with the behaviour of `subprocess.Popen`."""

import subprocess
from collections.abc import Callable
from typing import IO, Protocol


class ProcessHandle(Protocol):
    """Interface of `subprocess.Popen`, as far as this package uses it."""

    pid: int

    @property
    def stdout(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


start: Callable[..., ProcessHandle] = subprocess.Popen
"""Starter of processes, with the arguments of `subprocess.Popen`."""
