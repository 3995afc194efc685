"""Start of a cluster's processes, by default with a new interpreter for each.

A program that starts very many processes can set `start` to a cheaper function that behaves like `subprocess.Popen`."""

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
"""Function that starts a process, with the arguments of `subprocess.Popen`."""
