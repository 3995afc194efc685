"""Folder of one run, and the files in it.

STORE/{time}-{name}/
  history.jsonl     all operations of all processes, in the order of time (format: jepsen.checkers.json_lines)
  results.json      the verdict and all figures
  report.txt        the same for people
  timeline.json     the faults as drawn, as injected, and those without an observed effect
  logs/             the nodes' logs, and the clients' output on stderr
  data/             the nodes' directories; kept on failure, or on request
"""

import heapq
import shutil
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import orjson

from jepsen.runner.options import RunOptions
from jepsen.workloads.incarnations import resolve_incarnations

_INDENT: Final = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


class Store:
    """Folder of one run, created with its subdirectories."""

    def __init__(self, parent: Path, options: RunOptions) -> None:
        """Create a new directory of a run in `parent`, named by time and options."""
        stamp = time.strftime("%Y%m%dT%H%M%S")
        self.path = new_directory(parent.absolute(), f"{stamp}-{options.name}")
        self.data = self.path / "data"
        self.parts = self.path / "parts"
        self.logs = self.path / "logs"
        for directory in (self.data, self.parts, self.logs):
            directory.mkdir()

    @property
    def history(self) -> Path:
        return self.path / "history.jsonl"

    def part_path(self, name: str) -> Path:
        """Return the path of one process's history."""
        return self.parts / f"{name}.jsonl"

    def merge_history(self, *, has_incarnations: bool = False) -> None:
        """Merge all parts into one history and remove them.

        With `has_incarnations`, sends are assigned to the incarnations of topics that were deleted and created."""
        parts = sorted(self.parts.glob("*.jsonl"))
        with open(self.history, "wb") as history:
            merged = merge(map(_complete_lines, parts))
            history.writelines(
                resolve_incarnations(chain.from_iterable(map(_complete_lines, parts)), merged)
                if has_incarnations
                else merged
            )
        shutil.rmtree(self.parts)

    def write_json(self, name: str, content: Any) -> None:
        """Write a file of indented JSON into the run's directory."""
        (self.path / name).write_bytes(orjson.dumps(content, option=_INDENT))

    def write_text(self, name: str, text: str) -> None:
        """Write a text file into the run's directory."""
        (self.path / name).write_text(text)

    def drop_data(self) -> None:
        """Delete the brokers' data directories."""
        shutil.rmtree(self.data)


def new_directory(parent: Path, name: str) -> Path:
    """Create a directory, with a number after the name if two runs begin in one second. Raises `OSError`."""
    parent.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        path = parent / (f"{name}-{number}" if number else name)
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path


def _complete_lines(path: Path) -> Iterator[bytes]:
    """Yield complete lines, without an unfinished last one."""
    with open(path, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line


def merge(parts: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """Return the lines of all parts by time; lines of one part keep their order.

    At the same time invocations come first: operations that are not known to be ordered count as concurrent."""
    return (line for _, _, line in heapq.merge(*(_with_sort_key(part) for part in parts), key=lambda entry: entry[:2]))


def _with_sort_key(lines: Iterable[bytes]) -> Iterator[tuple[int, bool, bytes]]:
    """Yield each line with its time, and whether it completes an operation: invocations come first."""
    for line in lines:
        entry = orjson.loads(line)
        yield entry["time"], entry["type"] != "invoke", line
