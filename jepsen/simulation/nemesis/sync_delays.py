"""Latencies of syncs that complete in any order, as on a real disk.

The journal, the segments and the directories of a disk each have a latency factor, drawn once; a sync takes as
long as the slowest file that it covers, independent of earlier syncs. Everything comes from one generator that
nothing else uses, so that a run without unordered syncs draws the same numbers as before.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from raftlog.storage.disk import File

SLOWNESS: Final = (1, 1, 4, 20)
"""Factors of the disk's usual latency; journal, segments and directories have one of them each."""
_JOURNAL: Final = "/journal/"


def is_outside_journal(file: File) -> bool:
    """Return whether the file is outside of the journal."""
    return _JOURNAL not in file.path


class UnorderedDelays:
    """Latencies of the syncs of one disk."""

    def __init__(self, random: Random) -> None:
        self.journal = random.choice(SLOWNESS)
        self.segments = random.choice(SLOWNESS)
        self.directories = random.choice(SLOWNESS)
        self._random = random

    def draw_ns(self, files: Sequence[File], directories: Sequence[str], usual_ns: int, now_ns: int) -> int:
        """Return the duration of a sync in nanoseconds: between a tenth of the maximum and the maximum.

        `usual_ns` is the most that a sync takes on this disk when nothing is wrong with it, `now_ns` the same while it
        is slow or stalled. The maximum is `now_ns`, or `usual_ns` times the slowness of this kind of files if that is
        larger."""
        most_ns = max(now_ns, usual_ns * self._slowness_of(files, directories))
        return self._random.randint(most_ns // 10, most_ns)

    def _slowness_of(self, files: Sequence[File], directories: Sequence[str]) -> int:
        """Return the factor of the slowest kind of files that the sync covers, at least 1."""
        of_files = (self.segments if is_outside_journal(file) else self.journal for file in files)
        return max(*of_files, self.directories if directories else 1, 1)

    def __str__(self) -> str:
        return f"journal × {self.journal}, segments × {self.segments}, directories × {self.directories}"
