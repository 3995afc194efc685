"""Progress bar of a backup or a restoration on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from raftlog.cli.operator_verbs import WaitProgress
from raftlog.cli.progress import progress_bar

MIB = 1 << 20


@contextmanager
def offset_progress(label: str) -> Iterator[Callable[[int, int, int], None]]:
    """Yield a function that shows (offsets done, offsets in total, bytes done); no output without a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total, _size: None
        return
    with progress_bar(label) as show:

        def update(done: int, total: int, size: int) -> None:
            """Show the numbers of offsets done and in total, and of bytes."""
            show(WaitProgress(False, f"{done:,} of {total:,} offsets, {size / MIB:,.0f} MiB", done, total))

        yield update
