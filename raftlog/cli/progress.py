"""The progress bar of `produce`: on a terminal, and only once the work has lasted a second."""

import time
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

SHOWN_AFTER_SECONDS = 1.0


class Meter(Protocol):
    """Is told how far the work is."""

    def at(self, done_bytes: int) -> None: ...

    def close(self) -> None: ...


class Bar:
    """A bar on stderr; without a total it pulses."""

    def __init__(self, what: str, total_bytes: int | None) -> None:
        self._what, self._total = what, total_bytes
        self._show_at = time.monotonic() + SHOWN_AFTER_SECONDS
        self._progress: Progress | None = None

    def at(self, done_bytes: int) -> None:
        if self._progress is None:
            if time.monotonic() < self._show_at:
                return
            self._progress = self._start()
        self._progress.update(self._progress.task_ids[0], completed=done_bytes)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _start(self) -> Progress:
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        progress.add_task(self._what, total=self._total)
        progress.start()
        return progress
