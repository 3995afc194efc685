"""The file protocol on a real file system (Linux).

Descriptors are opened on use and kept in a bounded cache, so that thousands of segments need few of them. A file that
was written and not yet synced keeps its descriptor: Linux reports a failed write-back to descriptors that were open at
the time, and a closed one would never hear of it.

Threads: syncs run wherever `run` puts them; their completions come back through `post`. Everything else runs in the
caller's thread. The descriptor cache has a lock of its own, so reads may come from any thread.
"""

import errno
import fcntl
import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from raftlog.storage.disk import DirectoryLock, File, SyncDone
from raftlog.types import Buffer

OPEN_FILES_MAX = 512
_IOV_MAX = 1024
_SHRINK_STEPS = 32
_TRUSTED_LENGTH = 16 << 20
"""Above, a read is cut to what the file has before memory is taken: a length may come from damaged bytes."""

Job = Callable[[], None]


class RealDisk:
    """`run` executes a blocking job elsewhere; `post` calls a completion back in the owner's context."""

    def __init__(
        self,
        run: Callable[[Job], object],
        post: Callable[[Job], object] = lambda job: job(),
        open_files_max: int = OPEN_FILES_MAX,
    ) -> None:
        self._run = run
        self._post = post
        self._descriptors = DescriptorCache(open_files_max)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> "RealFile":
        file = RealFile(path, self._descriptors, os.O_RDONLY if read_only else os.O_RDWR)
        self._descriptors.adopt(file, os.open(path, file.flags | (os.O_CREAT | os.O_EXCL if create else 0), 0o644))
        return file

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def lock(self, path: str) -> DirectoryLock:
        return FileLock(path)

    def free_bytes(self, path: str) -> int:
        return shutil.disk_usage(path).free

    def sync(self, files: Sequence[File], directories: Sequence[str] = ()) -> None:
        for file in files:
            assert isinstance(file, RealFile), f"{file} belongs to another disk"
            file.sync_data()
        for directory in directories:
            _sync_directory(directory)

    def submit_sync(self, files: Sequence[File], directories: Sequence[str], done: SyncDone) -> None:
        for file in files:
            assert isinstance(file, RealFile), f"{file} belongs to another disk"
            assert not file.is_closed, f"{file.path} was closed before its sync"

        def job() -> None:
            failure: OSError | None = None
            try:
                self.sync(files, directories)
            except OSError as error:
                failure = error
            self._post(lambda: done(failure))

        self._run(job)


class RealFile:
    """A file by its path; the descriptor behind it comes and goes with the cache."""

    def __init__(self, path: str, descriptors: "DescriptorCache", access: int) -> None:
        self.path = path
        self.flags = access | os.O_CLOEXEC
        self._descriptors = descriptors
        self.writes = 0
        """Writes and truncations so far; moved by the writer only."""
        self.writes_synced = 0
        """Value of `writes` that a returned sync covered; `writes_synced ≤ writes`."""
        self.is_closed = False
        self._sync_lock = threading.Lock()
        self._sync_failure: OSError | None = None
        """The kernel tells of lost pages once: after that no sync of this file means anything."""

    @property
    def is_dirty(self) -> bool:
        return self.writes_synced < self.writes

    def size(self) -> int:
        with self._descriptors.use(self) as use:
            return os.fstat(use.descriptor).st_size

    def read(self, position: int, length: int) -> bytes:
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
        with self._descriptors.use(self) as use:
            os.posix_fadvise(use.descriptor, 0, 0, os.POSIX_FADV_WILLNEED)

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        self.writes += 1
        with self._descriptors.use(self) as use:
            for first in range(0, len(buffers), _IOV_MAX):
                some = buffers[first : first + _IOV_MAX]
                position += _write_fully(use.descriptor, some, position)

    def truncate(self, size: int) -> None:
        self.writes += 1
        with self._descriptors.use(self) as use:
            os.ftruncate(use.descriptor, size)

    def sync_data(self) -> None:
        """One sync at a time, so that none returns well while another one is told of an error; a failure stays."""
        with self._sync_lock:
            if self._sync_failure:
                raise self._sync_failure
            covered = self.writes
            try:
                with self._descriptors.use(self) as use:
                    os.fdatasync(use.descriptor)
            except OSError as error:
                if error.errno == errno.EBADF and self.is_closed:
                    return  # closed since it was submitted: whoever closed it gave up what it holds
                self._sync_failure = error
                raise
            self.writes_synced = max(self.writes_synced, covered)

    def close(self) -> None:
        self.is_closed = True
        self._descriptors.drop(self)


def _write_fully(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
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


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Use:
    """One use of a descriptor; while it lasts the cache does not close it."""

    __slots__ = ("_cache", "descriptor", "users")

    def __init__(self, cache: "DescriptorCache", descriptor: int) -> None:
        self._cache = cache
        self.descriptor = descriptor
        self.users = 0

    def __enter__(self) -> "_Use":
        return self

    def __exit__(self, *_: object) -> None:
        self._cache.release(self)


class DescriptorCache:
    """Open descriptors by file, least recently used first. Clean, unused ones are closed above `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._open: OrderedDict[RealFile, _Use] = OrderedDict()
        self._dropped: set[_Use] = set()

    def adopt(self, file: RealFile, descriptor: int) -> None:
        with self._lock:
            self._open[file] = _Use(self, descriptor)
            self._shrink()

    def use(self, file: RealFile) -> _Use:
        with self._lock:
            if file.is_closed:
                raise OSError(errno.EBADF, "the file was closed", file.path)
            use = self._open.get(file)
            if use is None:
                use = self._open[file] = _Use(self, os.open(file.path, file.flags))
                use.users = 1
                self._shrink()
            else:
                self._open.move_to_end(file)
                use.users += 1
            return use

    def release(self, use: _Use) -> None:
        with self._lock:
            use.users -= 1
            if not use.users and use in self._dropped:
                self._dropped.remove(use)
                os.close(use.descriptor)

    def drop(self, file: RealFile) -> None:
        with self._lock:
            use = self._open.pop(file, None)
            if use is None:
                return
            if use.users:
                self._dropped.add(use)
            else:
                os.close(use.descriptor)

    def _shrink(self) -> None:
        """Close the least recently used; what is dirty or in use goes to the other end, so that looking stays short."""
        excess = len(self._open) - self._limit
        for _ in range(min(_SHRINK_STEPS, len(self._open))):
            if excess <= 0:
                return
            file, use = next(iter(self._open.items()))
            if use.users or file.is_dirty:
                self._open.move_to_end(file)
                continue
            del self._open[file]
            os.close(use.descriptor)
            excess -= 1


class FileLock:
    """`flock` on a file of its own: released by the kernel when the process ends, however it ends."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
