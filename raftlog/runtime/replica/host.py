"""What a group needs of the process that it runs in. The driver provides it."""

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
    """See the module. `G` is the group: this module is below it."""

    config: DriverConfig
    loop: asyncio.AbstractEventLoop
    wall_ms: Callable[[], int]
    commit_times: Histogram
    """At leaders: from a proposal to its commit; one for all groups."""

    def mark_dirty(self, group: G) -> None:
        """There is something to do for the group in the next turn."""
        ...

    room: DiskRoom

    def why_refused(self, size_bytes: int, *, is_essential: bool = False) -> RaftlogError | None:
        """Why no entries of that size can be taken now; small essential ones may use what is reserved."""
        ...

    def write_entries(self, group: G) -> None:
        """Bring what the journal has of the group to its files now, as far as there is room."""
        ...

    def damage_found(self, group: G) -> None:
        """The group is quarantined now and wants repair."""
        ...

    def note_changed(self, group: G) -> None:
        """Files of the group go, outside of any Ready: the next checkpoint has to look at it."""
        ...

    def note_admitted(self, size_bytes: int) -> None:
        """Entries of that size are on their way to the journal."""
        ...

    def compact(self, group: G) -> None:
        """A mark of compaction is committed: compact what lies below, by and by."""
        ...

    def trim(self, group: G, offset: Offset) -> None:
        """Journal a trim and delete the segments once that is durable."""
        ...
