"""Progress bars on a terminal: for `produce`, shown after the first second, and for long operations."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from raftlog.cli.operator_verbs import WaitProgress

SHOWN_AFTER_SECONDS = 1.0


class ByteProgressBar:
    """Progress bar on stderr; without a total it pulses."""

    def __init__(self, what: str, total_bytes: int | None) -> None:
        """Prepare a bar that appears after a while; `total_bytes` is None if unknown."""
        self._what, self._total = what, total_bytes
        self._show_at = time.monotonic() + SHOWN_AFTER_SECONDS
        self._progress: Progress | None = None

    def update(self, done_bytes: int) -> None:
        """Show how many bytes are done; the bar appears only once the work has taken a while."""
        if self._progress is None:
            if time.monotonic() < self._show_at:
                return
            self._progress = self._start()
        self._progress.update(self._progress.task_ids[0], completed=done_bytes)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _start(self) -> Progress:
        """Show the bar on stderr."""
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


class _ProgressWithText(Progress):
    """Progress bar with the task's text on the lines below, because text beside the bar would be cut off."""

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield the bars, and the text of each task below them."""
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            yield Text(task.fields["text"], overflow="fold")


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[WaitProgress], None]]:
    """Show a bar with this label on stderr, updated with `WaitProgress` values, with their text below it."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with _ProgressWithText(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None, text="")

        def update(found: WaitProgress) -> None:
            """Show the present progress."""
            progress.update(task, completed=found.done, total=found.total, text=found.text)

        yield update
