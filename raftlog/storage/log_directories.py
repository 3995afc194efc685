"""Search for log directories in and below a directory, for tools that only read them.

Damaged, deleted and unknown logs under `.raftlog` (`damaged`, `trash`, `unknown`) are skipped."""

import os
from collections.abc import Iterator
from typing import Final

from raftlog.storage.directory import CHECKPOINT, INTERNAL

_KEPT_ASIDE: Final = ("damaged", "trash", "unknown")


def find_log_directories(directory: str) -> Iterator[str]:
    """Yield the directories that have segment files, or the checkpoint of a log whose segment files are lost.

    A directory comes before its subdirectories, which are sorted by name."""
    for path, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if not (path.endswith(INTERNAL) and name in _KEPT_ASIDE))
        if any(_is_segment(name) for name in files) or os.path.exists(f"{path}/{INTERNAL}/{CHECKPOINT}"):
            yield path


def _is_segment(name: str) -> bool:
    """Return whether the name is that of a segment file."""
    return len(name) == 24 and name.endswith(".log") and name[:20].isdecimal()
