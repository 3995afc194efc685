"""Disk in memory that loses unsynced writes: the `Disk` of tests and of the deterministic simulator.

No threads, no clock; every choice is drawn from the given generator, so a seed repeats a run exactly. The owner
decides when submitted syncs complete (`complete_next`, `complete`, …), when process or power fails (`process_crash`,
`power_loss`), and what breaks (`fail_sync`, `flip_bit`, …). The strict POSIX rule holds:

- contents and size of a file survive by its own sync, a name by the sync of its directory;
- each unsynced page of 4 KiB persists or not, independently of others; of a directory's unsynced operations a prefix
  persists;
- a rename is atomic, and durable once both directories are synced.

After a crash old handles raise `EBADF`, locks are free, and pending syncs never call their `done`.
"""

import errno
import os
import posixpath
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from jepsen.simulation.disk.simulated_faults import (
    PAGE_BYTES,
    ZERO_PAGE,
    Capture,
    Directory,
    DirectoryJournal,
    Inode,
    Node,
    pages_in,
    walk,
)
from raftlog.storage.disk import DirectoryLock, Disk, File, SyncDone
from raftlog.storage.temporary_errors import DESCRIPTOR_ERRORS
from raftlog.types import Buffer

UNLIMITED_BYTES: Final = 1 << 60


def os_error(code: int, path: str | None = None) -> OSError:
    """Return the error with this errno and its usual text."""
    return OSError(code, os.strerror(code), path)


class SimulatedFile(File):
    """File handle; after a crash it is stale, and every call raises `EBADF`."""

    def __init__(self, disk: "SimulatedDisk", path: str, inode: Inode, *, read_only: bool = False) -> None:
        self._disk, self._path, self._inode = disk, path, inode
        self._read_only = read_only
        self._epoch = disk.epoch
        self._closed = False

    @property
    def path(self) -> str:
        return self._path

    def inode(self) -> Inode:
        """Return the file that the handle opened; raises `EBADF` when the handle is closed or stale."""
        if self._closed or self._epoch != self._disk.epoch:
            raise os_error(errno.EBADF, self._path)
        return self._inode

    def _writable_inode(self) -> Inode:
        """Return the opened file. Raises `EBADF` for a closed, stale or read-only handle."""
        if self._read_only:
            raise os_error(errno.EBADF, self._path)
        return self.inode()

    def size(self) -> int:
        return len(self.inode().content)

    def read(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes from `position`, fewer at the end. Raises the error of an unreadable page."""
        inode = self.inode()
        self._check(position, length)
        end = min(position + length, len(inode.content))
        for page in range(position // PAGE_BYTES, pages_in(end)) if inode.unreadable else ():
            if page in inode.unreadable:
                raise os_error(inode.unreadable[page], self._path)
        return bytes(memoryview(inode.content)[position:end])

    def prefetch(self) -> None:
        self.inode()  # raises when the handle is stale, as every call does

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write the buffers at `position`. On a full disk, write a part of them and raise `ENOSPC`."""
        inode = self._writable_inode()
        self._check(position)
        data = b"".join(buffers)
        room = self._disk.room_for(inode, position + len(data)) - position
        if room < len(data):
            inode.write(position, data[: self._disk.random.randint(0, max(0, room))])
            raise os_error(errno.ENOSPC, self._path)
        inode.write(position, data)

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros. Raises `ENOSPC` on a full disk."""
        inode = self._writable_inode()
        self._check(size)
        if self._disk.room_for(inode, size) < size:
            raise os_error(errno.ENOSPC, self._path)
        inode.truncate(size)

    def close(self) -> None:
        self._closed = True

    def _check(self, *numbers: int) -> None:
        """Raise `EINVAL` for a negative position or size."""
        if min(numbers) < 0:
            raise os_error(errno.EINVAL, self._path)


class SimulatedLock(DirectoryLock):
    """Lock of a directory, held until its release or the crash of its process."""

    def __init__(self, disk: "SimulatedDisk", inode: Inode) -> None:
        self._disk, self._inode, self._epoch = disk, inode, disk.epoch
        inode.lock_holder = self

    def held(self) -> bool:
        """Return whether the holder's process still runs."""
        return self._epoch == self._disk.epoch

    def release(self) -> None:
        if self._inode.lock_holder is self:
            self._inode.lock_holder = None


@dataclass(eq=False)
class PendingSync:
    """Submitted sync: callback, error if it is going to fail, and the content that it certainly makes durable."""

    done: SyncDone
    sequence: int
    error: OSError | None = None
    captures: list[Capture] = field(default_factory=list)
    directories: list[Directory] = field(default_factory=list)


class SimulatedDisk(Disk):
    """`Disk` in memory. `capacity_bytes` bounds all file sizes together, holes included; it may be changed."""

    def __init__(self, random: Random, *, capacity_bytes: int | None = None) -> None:
        self.random = random
        self.capacity_bytes = capacity_bytes
        self.sync_count = 0  # syncs that came back, failed ones included
        self.epoch = 0  # counts crashes; handles and locks of an earlier epoch are stale
        self.open_error: int | None = None
        """Error number with which every attempt to open a file fails."""
        self._root = Directory()
        self._journal = DirectoryJournal()
        self._pending: deque[PendingSync] = deque()
        self._sync_failures: deque[int] = deque()

    # Names

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> SimulatedFile:
        """Open a file; with `create` a new one. Raises `EEXIST`, `ENOENT`, `EISDIR`, or `open_error`."""
        if self.open_error is not None:
            raise os_error(self.open_error, path)
        node = self._find(path)
        if create:
            if node is not None:
                raise os_error(errno.EEXIST, path)
            node = self._create(path)
        return SimulatedFile(self, path, self._inode_at(path, node), read_only=read_only)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), Directory)

    def list_directory(self, path: str) -> list[str]:
        return sorted(self._directory_at(path).entries)

    def make_directory(self, path: str) -> None:
        """Make the directory and its missing parents. Raises `EEXIST` or `ENOTDIR` where a file has the name."""
        directory = self._root
        names = split_path(path)
        for depth, name in enumerate(names, start=1):
            node = directory.entries.get(name)
            if node is None:
                node = Directory()
                self._journal.apply((directory, name, node))
            elif isinstance(node, Inode):
                raise os_error(errno.EEXIST if depth == len(names) else errno.ENOTDIR, path)
            directory = node

    def rename(self, old: str, new: str) -> None:
        """Replace `new` by `old`, atomically and not yet durably. Raises the errors of POSIX."""
        source, old_name, node = self._entry(old)
        target, new_name = self._parent(new)
        replaced = target.entries.get(new_name)
        if replaced is node:
            return
        if isinstance(node, Directory):
            self._check_directory_move(old, new, replaced)
        elif isinstance(replaced, Directory):
            raise os_error(errno.EISDIR, new)
        self._journal.apply((source, old_name, None), (target, new_name, node))

    def _check_directory_move(self, old: str, new: str, replaced: Node | None) -> None:
        """Raise an error if a directory cannot get this name: below itself, a file's, or a full directory's."""
        if split_path(new)[: len(split_path(old))] == split_path(old):
            raise os_error(errno.EINVAL, new)
        if isinstance(replaced, Inode):
            raise os_error(errno.ENOTDIR, new)
        if replaced is not None and replaced.entries:
            raise os_error(errno.ENOTEMPTY, new)

    def unlink(self, path: str) -> None:
        """Remove a file's name, not yet durably. Raises `ENOENT` or `EISDIR`."""
        parent, name, node = self._entry(path)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        self._journal.apply((parent, name, None))

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory, not yet durably. Raises `ENOENT`, `ENOTDIR` or `ENOTEMPTY`."""
        parent, name, node = self._entry(path)
        if isinstance(node, Inode):
            raise os_error(errno.ENOTDIR, path)
        if node.entries:
            raise os_error(errno.ENOTEMPTY, path)
        self._journal.apply((parent, name, None))

    def descriptor_shortage(self, path: str) -> OSError | None:
        """Return `open_error` if it is a lack of descriptors, otherwise None."""
        return os_error(self.open_error, path) if self.open_error in DESCRIPTOR_ERRORS else None

    def lock(self, path: str) -> SimulatedLock:
        """Lock a file, created if missing. Raises `EWOULDBLOCK` if another handle holds the lock."""
        inode = self._inode_at(path, self._find(path) or self._create(path))
        holder = inode.lock_holder
        if isinstance(holder, SimulatedLock) and holder.held():
            raise os_error(errno.EWOULDBLOCK, path)
        return SimulatedLock(self, inode)

    @property
    def sync_method(self) -> str:
        return "simulated"

    def free_bytes(self, path: str) -> int:
        """Return the number of free bytes; `UNLIMITED_BYTES` without a capacity."""
        if self._find(path) is None:
            raise os_error(errno.ENOENT, path)
        if self.capacity_bytes is None:
            return UNLIMITED_BYTES
        return max(0, self.capacity_bytes - sum(len(inode.content) for _, inode in self._files()))

    def total_bytes(self, path: str) -> int:
        return UNLIMITED_BYTES if self.capacity_bytes is None else self.capacity_bytes

    def room_for(self, inode: Inode, size: int) -> int:
        """Return the size in bytes to which the file can grow with the free space, at most `size`."""
        grown = size - len(inode.content)
        if self.capacity_bytes is None or grown <= 0:
            return size
        return len(inode.content) + min(grown, self.free_bytes("/"))

    # Syncs

    def sync(self, files: Sequence[File], directories: Sequence[str] = ()) -> None:
        """Sync the files and directories at once. Raises the error of a failed sync."""
        error = self._finish(self._begin(files, directories, lambda _: None))
        if error is not None:
            raise error

    def submit_sync(self, files: Sequence[File], directories: Sequence[str], done: SyncDone) -> None:
        """Submit a sync of the present state; `done` is called when the owner completes the sync."""
        self._pending.append(self._begin(files, directories, done))

    @property
    def pending_syncs(self) -> int:
        return len(self._pending)

    @property
    def newest_sync(self) -> PendingSync:
        """Sync that was submitted last, for `complete`; one must be pending."""
        return self._pending[-1]

    def complete_next(self) -> bool:
        """Complete the oldest submitted sync; return False without one."""
        return self.complete(self._pending[0]) if self._pending else False

    def complete(self, sync: PendingSync) -> bool:
        """Complete one submitted sync, even before older ones; return False if it is no longer pending."""
        if sync not in self._pending:
            return False
        self._pending.remove(sync)
        sync.done(self._finish(sync))
        return True

    def complete_all(self) -> int:
        """Complete syncs until none is pending, including those that a `done` submits; return their number."""
        completed = 0
        while self.complete_next():
            completed += 1
        return completed

    def _begin(self, files: Sequence[File], directories: Sequence[str], done: SyncDone) -> PendingSync:
        """Return a pending sync with the state that it will make durable, or with the error of a missing file."""
        sync = PendingSync(done, self._journal.sequence)
        try:
            for file in files:
                assert isinstance(file, SimulatedFile), file
                sync.captures.append(file.inode().capture())
            sync.directories.extend(map(self._directory_at, directories))
        except OSError as error:
            sync.error = error
        return sync

    def _finish(self, sync: PendingSync) -> OSError | None:
        """Make the state of a sync durable; return its error, or None."""
        self.sync_count += 1
        if self._sync_failures:
            for capture in sync.captures:
                capture.inode.lose_writeback(capture, self.random)
            return os_error(self._sync_failures.popleft())
        for capture in sync.captures:
            capture.inode.persist(capture, self.random)
        for directory in sync.directories:
            self._journal.sync(directory, sync.sequence, self.random)
        return sync.error

    # Crashes and faults

    def power_loss(self, torn: bool = True) -> None:
        """Cut the power: random unsynced pages are lost; without `torn`, each file loses all unsynced pages or none."""
        self._journal.lose_power(self.random)
        self._root.restart()
        for _, inode in self._files():
            inode.lose_power(self.random, torn)
        self.process_crash()

    def process_crash(self) -> None:
        """Crash the process as kill -9 does: written bytes and names stay, synced or not."""
        self._pending.clear()
        self.epoch += 1

    def fail_sync(self, times: int = 1, error: int = errno.EIO) -> None:
        """Fail the next `times` syncs. Their pages stay readable; no later sync makes them durable."""
        self._sync_failures.extend([error] * times)

    def fail_read(self, path: str, position: int, error: int = errno.EIO) -> None:
        """Make the page at the position unreadable until something is written to it."""
        self._page_of(path, position // PAGE_BYTES).unreadable[position // PAGE_BYTES] = error

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Flip a bit (0 to 7) of the byte at this position, on the disk as well."""
        inode = self._page_of(path, position // PAGE_BYTES)
        assert position < len(inode.content), (path, position, len(inode.content))
        assert 0 <= bit < 8, bit
        inode.damage_bit(position, bit)

    def zero_page(self, path: str, page: int) -> None:
        """Replace the page by zeros, on the disk as well."""
        self._page_of(path, page).damage_page(page, ZERO_PAGE)

    def restore_stale_page(self, path: str, page: int) -> bool:
        """Restore a page to its state before the last durable write; return False without such a write."""
        inode = self._page_of(path, page)
        if page not in inode.previous:
            return False
        inode.damage_page(page, inode.previous[page])
        return True

    def misdirect_write(self, path: str, page: int, other_path: str, other_page: int) -> bool:
        """Redirect the last durable write of the page to another page; return False without such a write."""
        content = self._page_of(path, page).page(page)
        other = self._page_of(other_path, other_page)
        if not self.restore_stale_page(path, page):
            return False
        other.damage_page(other_page, content)
        return True

    def _page_of(self, path: str, page: int) -> Inode:
        """Return the file at the path, which must have this page."""
        inode = self._inode_at(path, self._find(path))
        assert 0 <= page < pages_in(len(inode.content)), (path, page, len(inode.content))
        return inode

    # Inspection

    def snapshot(self) -> dict[str, bytes]:
        """Return the content of every file as reads return it, by path."""
        return {path: bytes(inode.content) for path, inode in self._files()}

    def durable_paths(self) -> list[str]:
        """Return the durable paths of files and directories, including those whose removal was not synced."""
        return [path for path, _ in walk(self._root, durable=True)]

    # Paths to nodes

    def _files(self) -> Iterator[tuple[str, Inode]]:
        """Return all files with their paths, sorted by path."""
        return ((path, node) for path, node in walk(self._root) if isinstance(node, Inode))

    def _find(self, path: str) -> Node | None:
        """Return the file or directory at the path; None if it does not exist."""
        node: Node | None = self._root
        for name in split_path(path):
            if not isinstance(node, Directory):
                return None
            node = node.entries.get(name)
        return node

    def _directory_at(self, path: str) -> Directory:
        """Return the directory at the path. Raises `ENOENT` or `ENOTDIR`."""
        node = self._find(path)
        if isinstance(node, Directory):
            return node
        raise os_error(errno.ENOENT if node is None else errno.ENOTDIR, path)

    def _inode_at(self, path: str, node: Node | None) -> Inode:
        """Return the node, which must be a file. Raises `ENOENT` for None, `EISDIR` for a directory."""
        if isinstance(node, Inode):
            return node
        raise os_error(errno.ENOENT if node is None else errno.EISDIR, path)

    def _parent(self, path: str) -> tuple[Directory, str]:
        """Return the parent directory of the path, and the last name. Raises `EBUSY` for the root."""
        names = split_path(path)
        if not names:
            raise os_error(errno.EBUSY, path)
        return self._directory_at("/" + "/".join(names[:-1])), names[-1]

    def _entry(self, path: str) -> tuple[Directory, str, Node]:
        """Return the parent directory, the last name, and its file or directory. Raises `ENOENT`."""
        parent, name = self._parent(path)
        if name not in parent.entries:
            raise os_error(errno.ENOENT, path)
        return parent, name, parent.entries[name]

    def _create(self, path: str) -> Inode:
        """Create an empty file, not yet durably."""
        parent, name = self._parent(path)
        inode = Inode()
        self._journal.apply((parent, name, inode))
        return inode


def split_path(path: str) -> list[str]:
    """Return the names in an absolute path."""
    assert path.startswith("/"), f"not an absolute path: {path!r}"
    return [name for name in posixpath.normpath(path).split("/") if name]
