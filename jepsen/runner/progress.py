"""Progress of tests on stderr, and their interruption by a signal."""

import signal
from contextlib import AbstractContextManager
from types import FrameType, TracebackType
from typing import Self

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn


class Bar:
    """Progress on stderr: a bar on a terminal, otherwise a line for each stage and change of faults."""

    def __init__(self, title: str = "") -> None:
        self._title = f"{title} " if title else ""
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TextColumn("{task.fields[counts]}"))
        console = Console(stderr=True)
        self._is_terminal = console.is_terminal
        self._progress = Progress(*columns, console=console, transient=True, disable=not self._is_terminal)
        self._task = self._progress.add_task("", total=1.0, counts="")
        self._last_line = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, stage: str, share: float, figures: dict[str, int], under_way: list[str]) -> None:
        """Show the stage, its progress from 0 to 1, the operations by outcome, and the faults under way.

        Without a terminal, print a line when the stage or the faults change."""
        faults = "; ".join(under_way)
        counts = "  ".join(f"{figures.get(name, 0):,} {name}" for name in ("ok", "fail", "info"))
        self._progress.update(
            self._task, description=f"{self._title}{stage}", completed=share, counts=f"{counts}  {faults}"
        )
        line = f"{stage}: {faults}" if faults else stage
        if not self._is_terminal and line != self._last_line:
            self._last_line = line
            click.echo(f"{self._title}{line}", err=True)


class interrupt_on_sigterm(AbstractContextManager[None]):  # noqa: N801 - used like a function
    """Context in which SIGTERM interrupts the test as Ctrl-C does."""

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGTERM, self._interrupt)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGTERM, self._before)

    @staticmethod
    def _interrupt(_number: int, frame: FrameType | None) -> None:
        """Handle SIGTERM as Ctrl-C."""
        on_ctrl_c = signal.getsignal(signal.SIGINT)  # an event loop that runs has its own way to end
        if callable(on_ctrl_c):
            on_ctrl_c(signal.SIGINT, frame)
        else:  # the parent process ignores Ctrl-C
            raise KeyboardInterrupt
