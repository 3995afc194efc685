"""Interface of a group to the process that it runs in, provided by the driver."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from raftlog.errors import RaftlogError
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.histogram import Histogram
from raftlog.runtime.replica.disk_room import DiskRoom
from raftlog.types import Offset

G = TypeVar("G", contravariant=True)


class Host(Protocol[G]):
    """Process in which a group's replica runs. `G` is the replica's class, which imports this module."""

    config: DriverConfig
    loop: asyncio.AbstractEventLoop
    wall_ms: Callable[[], int]
    commit_times: Histogram
    """Times at leaders from a proposal to its commit; one histogram for all groups."""

    def mark_dirty(self, group: G) -> None:
        """Schedule the group for the next turn."""
        ...

    room: DiskRoom

    def append_error(self, size_bytes: int, *, is_essential: bool = False) -> RaftlogError | None:
        """Return the error that refuses entries of that size now, or None; small essential ones may use the reserve."""
        ...

    def write_entries(self, group: G) -> None:
        """Write the group's journaled entries to its files now, as far as there is room."""
        ...

    def on_damage(self, group: G) -> None:
        """Start the repair of a group that was quarantined."""
        ...

    def note_changed(self, group: G) -> None:
        """Record that files of the group change outside of a Ready: the next checkpoint has to include them."""
        ...

    def note_admitted(self, size_bytes: int) -> None:
        """Count entries of that size that are on their way to the journal."""
        ...

    def compact(self, group: G) -> None:
        """Schedule compaction of the log below a committed compaction mark."""
        ...

    def trim(self, group: G, offset: Offset) -> None:
        """Journal a trim and delete the segments once that is durable."""
        ...
