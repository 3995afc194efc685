"""How the processes of a cluster come to be: an interpreter of its own for each.

A program that starts very many may know a cheaper way, and puts it here; it has to be like `subprocess.Popen`.
"""

import subprocess
from collections.abc import Callable
from typing import IO, Protocol


class Started(Protocol):
    """What is used of a `subprocess.Popen`."""

    pid: int

    @property
    def stdout(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


start: Callable[..., Started] = subprocess.Popen
"""Takes what `subprocess.Popen` takes."""
