"""Simulated disk whose syncs take virtual time and call back the process that submitted them.

It belongs to a machine and outlives its processes. Syncs complete in the order of their submission, or, with
`UnorderedDelays`, independently; to a paused process they complete when it resumes, to a dead one never. With
`UnorderedDelays` those of segments can be held for a while. Blocking syncs (opening, cutting) take no time."""

from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import NamedTuple

from jepsen.simulation.disk.simulated_disk import PendingSync, SimulatedDisk
from jepsen.simulation.disk.simulated_faults import PAGE_BYTES, Directory, DirectoryJournal
from jepsen.simulation.nemesis.sync_delays import UnorderedDelays, is_outside_journal
from jepsen.simulation.node import Process
from jepsen.simulation.virtual_time.loop import VirtualLoop
from raftlog.storage.disk import File, SyncDone


class Image(NamedTuple):
    """Copy of the whole content of a disk."""

    root: Directory
    journal: DirectoryJournal


class TimedDisk(SimulatedDisk):
    """Simulated disk with timed syncs, in order without `unordered`. `process` is the machine's running process."""

    def __init__(
        self, random: Random, loop: VirtualLoop, delay_ns: int, unordered: UnorderedDelays | None = None
    ) -> None:
        super().__init__(random)
        self.process: Process | None = None
        self.delay_ns = delay_ns
        """Longest time of a sync; each takes at least a tenth of it."""
        self._loop = loop
        self._usual_ns = delay_ns
        self._busy_until_ns = 0
        self._unordered = unordered
        self.is_holding = False
        """Whether syncs that cover files of segments wait for `release`."""
        self._held: list[tuple[Process | None, PendingSync]] = []

    def submit_sync(self, files: Sequence[File], directories: Sequence[str], done: SyncDone) -> None:
        """Submit a sync, which returns after a drawn time, or after `release` if it is held."""
        super().submit_sync(files, directories, done)
        if self._unordered is not None:
            if self.is_holding and any(map(is_outside_journal, files)):
                self._held.append((self.process, self.newest_sync))
                return
            delay_ns = self._unordered.draw_ns(files, directories, self._usual_ns, self.delay_ns)
            at_ns = self._loop.now_ns + delay_ns
            self._loop.call_at_ns(at_ns, self._complete_sync, self.process, self.newest_sync)
            return
        delay_ns = self.random.randint(self.delay_ns // 10, self.delay_ns)
        self._busy_until_ns = max(self._busy_until_ns, self._loop.now_ns + delay_ns)
        self._loop.call_at_ns(self._busy_until_ns, self._complete_oldest, self.process)

    def _complete_oldest(self, process: Process | None) -> None:
        """Complete the oldest pending sync, in the process that submitted it."""
        if process is not None:
            process.call_soon(self.complete_next)

    def _complete_sync(self, process: Process | None, sync: PendingSync) -> None:
        """Complete this sync, in the process that submitted it."""
        if process is not None:
            process.call_soon(self.complete, sync)

    def hold(self) -> None:
        """Block syncs that cover segment files until `release`; other syncs return before them."""
        assert self._unordered is not None, "syncs complete in order"
        self.is_holding = True

    def release(self) -> None:
        """Let the held syncs return, in the order of their submission."""
        held, self._held, self.is_holding = self._held, [], False
        for process, sync in held:
            self._complete_sync(process, sync)

    @property
    def has_held(self) -> bool:
        """Whether `release` has syncs to return."""
        return bool(self._held)

    def process_crash(self) -> None:
        """Crash the process; held syncs never complete."""
        super().process_crash()
        self._held.clear()

    def slow_down(self, factor: int) -> None:
        """Multiply the usual time of a sync by `factor`."""
        self.delay_ns = self._usual_ns * factor

    def stall(self, delay_ns: int) -> None:
        """Let each sync take between a tenth of `delay_ns` and all of it, from now on."""
        self.delay_ns = delay_ns

    def snapshot_of(self, path: str) -> bytes:
        """Return the content of one file, including unreadable pages, as `snapshot` does."""
        return bytes(self._inode_at(path, self._find(path)).content)

    def is_unreadable(self, path: str, position: int) -> bool:
        """Return whether the page of a file at this byte position cannot be read."""
        page = position // PAGE_BYTES
        return page in self._inode_at(path, self._find(path)).unreadable

    def used_bytes(self) -> int:
        """Return the size of all files in bytes."""
        return sum(len(content) for content in self.snapshot().values())

    def recover(self) -> None:
        """Restore speed and space; syncs in flight still take their time. Damage stays."""
        self.delay_ns = self._usual_ns
        self.capacity_bytes = None
        self._sync_failures.clear()
        for _, inode in self._files():
            inode.unreadable.clear()

    def wipe(self) -> None:
        """Delete all content and pending syncs; the machine must be down."""
        self.process_crash()
        self._root = Directory()
        self._journal = DirectoryJournal()

    def image(self) -> Image:
        """Return a copy of all content; the machine must be down."""
        self.process_crash()
        for _, inode in self._files():
            inode.lock_holder = None  # a lock knows its process
        return Image(*deepcopy((self._root, self._journal)))

    def restore_image(self, image: Image) -> None:
        """Restore an image of the disk; the machine must be down."""
        self.process_crash()
        self._root, self._journal = deepcopy(image)
