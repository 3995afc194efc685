"""What a group needs of its driver, which is the only one to be it."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from raftlog.errors import RaftlogError
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.disk_room import DiskRoom
from raftlog.runtime.histogram import Histogram
from raftlog.types import Offset

if TYPE_CHECKING:  # a group owns neither
    from raftlog.runtime.group import Group


class Host(Protocol):
    """See the module."""

    config: DriverConfig
    loop: asyncio.AbstractEventLoop
    wall_ms: Callable[[], int]
    commit_times: Histogram
    """At leaders: from a proposal to its commit; one for all groups."""

    def mark_dirty(self, group: "Group") -> None:
        """There is something to do for the group in the next turn."""
        ...

    room: DiskRoom

    def why_refused(self, size_bytes: int, *, is_essential: bool = False) -> RaftlogError | None:
        """Why no entries of that size can be taken now; small essential ones may use what is reserved."""
        ...

    def write_entries(self, group: "Group") -> None:
        """Bring what the journal has of the group to its files now, as far as there is room."""
        ...

    def damage_found(self, group: "Group") -> None:
        """The group is quarantined now and wants repair."""
        ...

    def note_changed(self, group: "Group") -> None:
        """Files of the group go, outside of any Ready: the next checkpoint has to look at it."""
        ...

    def note_admitted(self, size_bytes: int) -> None:
        """Entries of that size are on their way to the journal."""
        ...

    def compact(self, group: "Group") -> None:
        """A mark of compaction is committed: compact what lies below, by and by."""
        ...

    def trim(self, group: "Group", offset: Offset) -> None:
        """Journal a trim and delete the segments once that is durable."""
        ...
