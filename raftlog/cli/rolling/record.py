"""Progress of a rolling restart of `raftlog dev`, in its data directory, so that another run can continue it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import orjson

from raftlog.cli.rolling.steps import RestartUnit

FILE_NAME: Final = "rolling-restart.json"


class RollingRecord:
    """Progress of one run, stored until all nodes are restarted. `python`: interpreter; None: each node's own."""

    def __init__(self, directory: Path, python: str | None) -> None:
        """Record finished restarts in `directory`; `python` is the new interpreter, None for each node's own."""
        self._path, self._python = directory / FILE_NAME, python
        self._done: list[int] = []

    def remaining_units(self, units: Sequence[RestartUnit]) -> list[RestartUnit]:
        """Return the units that an earlier run with the same interpreter did not restart; all without such a run."""
        try:
            kept = orjson.loads(self._path.read_bytes())
            done = list(map(int, kept["done"])) if kept["python"] == self._python else []
        except (FileNotFoundError, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            done = []
        self._done = done
        return [unit for unit in units if unit.node_id not in done]

    def begin(self) -> None:
        """Delete the progress of earlier runs."""
        self._done = []
        self._path.unlink(missing_ok=True)

    def add_restarted(self, unit: RestartUnit) -> None:
        """Record in the file that a unit was restarted."""
        self._done.append(unit.node_id)
        self._path.write_bytes(orjson.dumps({"python": self._python, "done": self._done}) + b"\n")

    def end(self) -> None:
        """Delete the progress of a finished run."""
        self._path.unlink(missing_ok=True)
