"""Implementation of `disk` on a real file system (Linux).

Descriptors are opened on use and kept in a bounded cache, so that thousands of segments need few of them. The lock of a
directory holds a `FilesystemSync` until it is released: with it a file that was written and not yet synced can give up
its descriptor, and many files and directories are synced by one call.

Files are created with mode 0600 and directories with 0700, whatever the umask allows; existing ones keep their modes.

Threads: syncs run wherever `run` puts them; their completions return through `post`. Everything else runs in the
caller's thread. The descriptor cache has a lock of its own, so reads may come from any thread."""

import errno
import fcntl
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from raftlog.storage.descriptors import DescriptorCache, DescriptorUse
from raftlog.storage.disk import DirectoryLock, File, SyncDone
from raftlog.storage.filesystem_sync import FilesystemSync
from raftlog.storage.syncs.aio_syncs import AioSyncs
from raftlog.storage.syncs.sync_choice import SyncChoice
from raftlog.storage.temporary_errors import lacks_descriptors
from raftlog.types import Buffer

OPEN_FILES_MAX = 512
FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MANY = 32
"""Minimum number of files and directories for which one sync of the whole file system is cheaper."""
_IOV_MAX = 1024
_TRUSTED_LENGTH = 16 << 20
"""Length above which a read is limited to the file's size: the length may come from damaged bytes."""

Job = Callable[[], None]


class RealDisk:
    """Disk of the operating system. `run` executes a blocking job; `post` runs a completion for the owner."""

    def __init__(
        self,
        run: Callable[[Job], object],
        post: Callable[[Job], object] = lambda job: job(),
        open_files_max: int = OPEN_FILES_MAX,
        waits_for_descriptors: bool = False,
        aio: AioSyncs | None = None,
        choice: SyncChoice | None = None,
    ) -> None:
        """Create a disk with a descriptor cache of `open_files_max`.

        With `aio` submitted syncs of single files need no thread: all of them, or those that `choice` assigns to it;
        the caller closes `aio`. With `waits_for_descriptors` a submitted sync without a descriptor is retried by
        `descriptor_shortage`, which the owner calls regularly; otherwise it fails."""
        self._run = run
        self._post = post
        self._descriptors = DescriptorCache(open_files_max)
        self._waits_for_descriptors = waits_for_descriptors
        self._aio = aio
        self._choice = choice
        self._waiting_syncs: deque[Job] = deque()
        """Submitted syncs for which no descriptor was left."""
        self._filesystems: dict[int, FilesystemSync] = {}
        """Open `FilesystemSync`s by device number, each until its directory lock is released."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> "RealFile":
        """Open a file, or create it with `create`. Raises `FileExistsError` if a file to create exists."""
        file = RealFile(path, self._descriptors, os.O_RDONLY if read_only else os.O_RDWR, self._aio)
        flags = file.flags | (os.O_CREAT | os.O_EXCL if create else 0)
        descriptor = self._descriptors.open_path(path, flags, FILE_MODE)
        if self._filesystems:
            file.filesystem = self._filesystems.get(os.fstat(descriptor).st_dev)
        self._descriptors.adopt(file, descriptor)
        return file

    def exists(self, path: str) -> bool:
        """Return whether the path has a name in its directory, even that of a broken symbolic link."""
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def list_directory(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""
        descriptor = self._descriptors.open_path(path, _DIRECTORY_FLAGS)
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def make_directory(self, path: str) -> None:
        """Create a directory and its missing parents, each with the same mode."""
        missing = [path]
        while (parent := os.path.dirname(missing[-1])) and not os.path.exists(parent):
            missing.append(parent)
        for directory in reversed(missing):  # `os.makedirs` gives its mode to the last one only
            try:
                os.mkdir(directory, DIRECTORY_MODE)
            except FileExistsError:
                if not os.path.isdir(directory):
                    raise

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def lock(self, path: str) -> DirectoryLock:
        """Lock the file; hold a `FilesystemSync` of its file system until the lock is released."""
        lock = FileLock(path)
        filesystem = FilesystemSync.open(os.path.dirname(path))
        if filesystem is None or filesystem.device in self._filesystems:
            if filesystem is not None:
                filesystem.close()
            return lock
        self._filesystems[filesystem.device] = filesystem
        return FilesystemSyncLock(lock, partial(self._close_filesystem, filesystem))

    def _close_filesystem(self, filesystem: FilesystemSync) -> None:
        """Remove and close a `FilesystemSync` when its lock is released."""
        del self._filesystems[filesystem.device]
        filesystem.close()

    @property
    def sync_method(self) -> str:
        return "aio" if self._aio is not None and self._aio.refused is None else "threads"

    def free_bytes(self, path: str) -> int:
        return shutil.disk_usage(path).free

    def total_bytes(self, path: str) -> int:
        return shutil.disk_usage(path).total

    def descriptor_shortage(self, path: str) -> OSError | None:
        """Return the shortage, after another attempt if there was one; without a shortage run the syncs that waited."""
        if self._descriptors.shortage is not None:
            with suppress(OSError):  # the shortage records a lack of descriptors
                os.close(self._descriptors.open_path(path, _DIRECTORY_FLAGS))
        if (shortage := self._descriptors.shortage) is None:
            for _ in range(len(self._waiting_syncs)):
                self._run(self._waiting_syncs.popleft())
        return shortage

    def sync(self, files: Sequence[File], directories: Sequence[str] = ()) -> None:
        """Sync the files and directories: one by one, or many of one file system together."""
        mine = [_check_own(file) for file in files]
        if len(files) + len(directories) >= _MANY and (filesystem := self._find_filesystem(mine, directories)):
            _sync_together(filesystem, mine)
            return
        for file in mine:
            file.sync_data()
        for directory in directories:
            self._sync_directory(directory)

    def _sync_directory(self, path: str) -> None:
        """Sync the names in a directory."""
        descriptor = self._descriptors.open_path(path, _DIRECTORY_FLAGS)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _find_filesystem(self, files: Sequence["RealFile"], directories: Sequence[str]) -> FilesystemSync | None:
        """Return the file system if one holds all files and directories, and its `syncfs` can be used; else None."""
        filesystem = files[0].filesystem if files else self._filesystems.get(os.stat(directories[0]).st_dev)
        if filesystem is None or any(file.filesystem is not filesystem for file in files):
            return None
        return filesystem if all(os.stat(path).st_dev == filesystem.device for path in directories) else None

    def submit_sync(self, files: Sequence[File], directories: Sequence[str], done: SyncDone) -> None:
        """Start a sync: of one file by AIO if possible, otherwise in a thread."""
        for file in files:
            assert not _check_own(file).is_closed, f"{file.path} was closed before its sync"
        if self._aio is not None and len(files) == 1 and not directories:
            by_aio = self._choice is None or self._choice.choose_aio()
            if by_aio and _check_own(files[0]).submit_sync(self._measure(done, by_aio=True)):
                return
            done = self._measure(done, by_aio=False)  # also of a sync that AIO did not take
        self._run(partial(self._sync_and_post, files, directories, done))

    def _measure(self, done: SyncDone, *, by_aio: bool) -> SyncDone:
        """Wrap `done` to record the duration of the sync as well, if the sync method is chosen by durations."""
        if self._choice is None:
            return done
        return partial(_record_duration, self._choice, by_aio, time.perf_counter(), done)

    def _sync_and_post(self, files: Sequence[File], directories: Sequence[str], done: SyncDone) -> None:
        """Sync in a thread and post the completion.

        A method, since a nested function would leave a reference cycle for each sync."""
        failure: OSError | None = None
        try:
            self.sync(files, directories)
        except OSError as error:
            if self._waits_for_descriptors and lacks_descriptors(error):
                # A file could not be opened, but no sync failed.
                self._waiting_syncs.append(partial(self._sync_and_post, files, directories, done))
                return
            failure = error
        self._post(partial(done, failure))


class RealFile:
    """File of a real file system; the cache opens and closes its descriptor."""

    def __init__(self, path: str, descriptors: DescriptorCache, access: int, aio: AioSyncs | None = None) -> None:
        """Describe a file with its access flags; `descriptors` opens it, `aio` is None if syncs use threads."""
        self.path = path
        self.flags = access | os.O_CLOEXEC
        self._descriptors = descriptors
        self._aio = aio
        self.writes = 0
        """Number of writes and truncations; changed by the writer only."""
        self.writes_synced = 0
        """Value of `writes` that a completed sync covered; `writes_synced ≤ writes`."""
        self.filesystem: FilesystemSync | None = None
        """Reporter of write-backs that fail while the descriptor is closed; None if the file keeps its descriptor."""
        self._writes_at_release = 0
        """Value of `writes` when the descriptor was last closed with unsynced ones; changed under the cache's lock."""
        self.is_closed = False
        self._sync_lock = threading.Lock()
        """Held while a sync is in flight, by a thread or by AIO."""
        self._has_aio_sync = False
        self._sync_failure: OSError | None = None
        """Error of a failed sync: the kernel reports lost pages only once, so later syncs of this file are no proof."""

    @property
    def is_dirty(self) -> bool:
        """Whether the file has writes that no completed sync covers."""
        return self.writes_synced < self.writes

    @property
    def may_release(self) -> bool:
        """Whether the descriptor may be closed: a failed write-back would be reported, or nothing is unsynced."""
        return self.filesystem is not None or not self.is_dirty

    def mark_released(self) -> None:
        """Record the number of writes if the descriptor is closed with unsynced ones."""
        if self.is_dirty:
            self._writes_at_release = self.writes

    def size(self) -> int:
        with self._descriptors.use(self) as use:
            return os.fstat(use.descriptor).st_size

    def read(self, position: int, length: int) -> bytes:
        """Read up to `length` bytes, with several system calls if needed; fewer only at the end of the file."""
        with self._descriptors.use(self) as use:
            if length > _TRUSTED_LENGTH:
                length = max(0, min(length, os.fstat(use.descriptor).st_size - position))
            data = os.pread(use.descriptor, length, position)
            if len(data) == length or not data:
                return data
            parts = [data]
            got = len(data)
            while got < length:
                data = os.pread(use.descriptor, length - got, position + got)
                if not data:
                    break
                parts.append(data)
                got += len(data)
            return b"".join(parts)

    def prefetch(self) -> None:
        """Ask the kernel to read the file into the page cache."""
        with self._descriptors.use(self) as use:
            os.posix_fadvise(use.descriptor, 0, 0, os.POSIX_FADV_WILLNEED)

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers one after another from `position` on."""
        with self._descriptors.use(self) as use:
            try:
                for first in range(0, len(buffers), _IOV_MAX):
                    some = buffers[first : first + _IOV_MAX]
                    position += _write_fully(use.descriptor, some, position)
            finally:
                self.writes += 1  # a sync that began meanwhile does not cover it

    def truncate(self, size: int) -> None:
        """Set the size of the file in bytes."""
        with self._descriptors.use(self) as use:
            try:
                os.ftruncate(use.descriptor, size)
            finally:
                self.writes += 1

    def sync_data(self) -> None:
        """Sync the file's data, one call at a time, so that none succeeds while another fails.

        Once a sync has failed, all later ones fail."""
        if self._aio is not None:
            self._aio.wait_while(self._is_in_aio)
        with self._sync_lock:
            if self._sync_failure:
                raise self._sync_failure
            covered = self.writes
            try:
                with self._descriptors.use(self) as use:
                    if self._needs_filesystem_sync():
                        assert self.filesystem is not None, (
                            "only a file with a FilesystemSync gives up its descriptor unsynced"
                        )
                        self.filesystem.sync()  # this descriptor may not get the errors of writes through another one
                    else:
                        os.fdatasync(use.descriptor)
            except OSError as error:
                if error.errno == errno.EBADF and self.is_closed:
                    return  # closed since it was submitted: its unsynced writes may be lost
                if not lacks_descriptors(error):  # then it was not opened, and no sync failed
                    self._sync_failure = error
                raise
            self.mark_synced(covered)

    def submit_sync(self, done: SyncDone) -> bool:
        """Start a sync by AIO and call `done` with its result later on the loop; return False if a thread must sync."""
        if self._aio is None or not self._sync_lock.acquire(blocking=False):
            return False
        if self._sync_failure is None and not self._needs_filesystem_sync():
            # A thread reports the missing descriptor.
            with suppress(OSError):
                use = self._descriptors.use(self)
                if self._aio.submit(use.descriptor, partial(self._finish_sync, use, self.writes, done)):
                    self._has_aio_sync = True
                    return True
                self._descriptors.release(use)
        self._sync_lock.release()
        return False

    def _finish_sync(self, use: DescriptorUse, covered: int, done: SyncDone, error: OSError | None) -> Job:
        """Record the result of a sync by AIO; return the call of `done` for the loop."""
        try:
            self._descriptors.release(use)
        except OSError as failure:  # the descriptor of a file closed meanwhile could not be closed
            error = error or failure
        if error is None:
            self.mark_synced(covered)
        else:
            self._sync_failure = error
        self._has_aio_sync = False
        self._sync_lock.release()
        return partial(done, error)

    def _is_in_aio(self) -> bool:
        """Return whether a sync by AIO is in flight."""
        return self._has_aio_sync

    def _needs_filesystem_sync(self) -> bool:
        """Return whether an earlier descriptor has unsynced writes, whose failure the present one may not report."""
        return self.filesystem is not None and self._writes_at_release > self.writes_synced

    def mark_synced(self, covered: int) -> None:
        """Record a successful sync that began after `covered` writes."""
        self.writes_synced = max(self.writes_synced, covered)

    def close(self) -> None:
        """Close the file; its descriptor is closed once no call uses it."""
        self.is_closed = True
        self._descriptors.drop(self)


def _check_own(file: File) -> RealFile:
    """Return the file as a `RealFile`; a file of another kind of disk is an error of the caller."""
    assert isinstance(file, RealFile), f"{file} belongs to another disk"
    return file


def _record_duration(choice: SyncChoice, by_aio: bool, began: float, done: SyncDone, error: OSError | None) -> None:
    """Record the duration of a sync that began at time `began`, then call `done`."""
    choice.add_sample(by_aio, time.perf_counter() - began)
    done(error)


def _sync_together(filesystem: FilesystemSync, files: Sequence[RealFile]) -> None:
    """Sync the file system, and with it all `files`."""
    covered = [file.writes for file in files]
    filesystem.sync()
    for file, writes in zip(files, covered, strict=True):
        file.mark_synced(writes)


def _write_fully(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
    """Write all buffers at `position`, also after partial writes; return the number of bytes."""
    total = sum(map(len, buffers))
    written = os.pwritev(descriptor, buffers, position)
    if written < total:
        rest = memoryview(b"".join(buffers))
        while written < total:
            more = os.pwrite(descriptor, rest[written:], position + written)
            if not more:
                raise OSError(errno.EIO, "a write made no progress")
            written += more
    return total


class FileLock:
    """Lock by `flock` on a file of its own; the kernel releases it however the process ends."""

    def __init__(self, path: str) -> None:
        """Lock the file, which is created if it does not exist. Raises `BlockingIOError` if the lock is held."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class FilesystemSyncLock:
    """Lock of a directory that also closes its `FilesystemSync` when it is released."""

    def __init__(self, lock: FileLock, end: Callable[[], None]) -> None:
        self._lock = lock
        self._end: Callable[[], None] | None = end

    def release(self) -> None:
        """Release the lock, and end the watch of the file system."""
        if self._end is not None:
            self._end()
            self._end = None
        self._lock.release()
