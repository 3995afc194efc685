"""Small programs that run under the shim until they kill themselves, and random generators with fixed results."""

import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from jepsen.disk import NodeDisk

_REPOSITORY = Path(__file__).parents[3]
_PRELUDE = """
import os, signal, sys, threading
from pathlib import Path

OLD, NEW, NEWER = b"o" * 4096, b"n" * 4096, b"r" * 4096

def attempt(what, *arguments):
    try:
        what(*arguments)
        print("ok")
    except OSError as error:
        print(error.errno)

def opened(path, content=None, flags=os.O_RDWR | os.O_CREAT):
    "A descriptor; with content written from the beginning, and not synced."
    descriptor = os.open(path, flags, 0o644)
    if content is not None:
        os.pwrite(descriptor, content, 0)
    return descriptor

def synced(path, content):
    "A file that is durable, and its name."
    descriptor = opened(path, content)
    os.fsync(descriptor)
    sync_directory(os.path.dirname(path) or ".")
    return descriptor

def sync_directory(path="."):
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    os.close(descriptor)
"""


class NothingSurvives(Random):
    """Random generator with whose choices no unsynced data survives."""

    def random(self) -> float:
        return 0.9

    def choice(self, seq: Any) -> Any:
        return seq[0]

    def randint(self, a: int, b: int) -> int:
        return a


class EverythingSurvives(Random):
    """Random generator with whose choices all unsynced data survives."""

    def random(self) -> float:
        return 0.1

    def choice(self, seq: Any) -> Any:
        return seq[1]

    def randint(self, a: int, b: int) -> int:
        return b


def node_disk(directory: Path, **options: Any) -> NodeDisk:
    return NodeDisk(directory / "data", directory / "state", **options)


def run_program(
    directory: Path, disk: NodeDisk, program: str, *arguments: str, prelude: str = "", prepare: Sequence[Any] = ()
) -> str:
    """Run a program in the data directory until it is killed; return its output.

    `prelude` is code before the program; `prepare` switches faults on before it starts.
    """
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(_REPOSITORY), **disk.environment()}
    for fault in prepare:
        fault()
    text = (
        f"{_PRELUDE}\n{prelude}\n{textwrap.dedent(program)}\nsys.stdout.flush()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", text, *arguments],
        check=False,
        cwd=directory / "data",
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout


def read_files(directory: Path) -> dict[str, bytes]:
    """Return the content of all files of the data directory by name."""
    data = directory / "data"
    return {str(path.relative_to(data)): path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()}
