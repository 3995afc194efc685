"""File system of an archive, reduced to the operations that it needs.

`files_at(path)` returns one for a local path, or for a URI that pyarrow supports (`hdfs://…`, `s3://…`). Called by all
modules of this package, on the driver and, created again there, in tasks. Names are relative to the archive, with `/`.

The order of an archive's steps relies on these guarantees: `create` succeeds for one caller only; names that `create`,
`sync` and `sync_directories` were called for are durable when they return; `move` is atomic. Local file systems and
HDFS hold this. Object stores move by copying, and their `create` mostly detects another writer only afterwards: there
the caller must run a single job at a time."""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
from pyarrow import fs

from raftlog.errors import InvalidArgument
from raftlog.pipeline.errors import ArchiveDamaged, ArchiveTaken
from raftlog.storage.disk import DirectoryLock
from raftlog.storage.real_disk import FileLock

_PATTERN: Final = "{}[]*?\\"


class Files:
    """One directory of a file system of pyarrow, with all below it."""

    def __init__(self, system: fs.FileSystem, root: str, uri: str) -> None:
        self._system, self._root = system, root
        self.uri = uri
        """URI for Spark to read, without a `/` at the end."""

    def _at(self, name: str) -> str:
        return f"{self._root}/{_relative(name)}" if name else self._root

    def lock(self, name: str) -> DirectoryLock:
        """Hold the lock until released, or until the process ends; raises `ArchiveTaken` where it is held already.

        Remote file systems have no locks: there the claim in the archive's commits is what holds.
        """
        return _NoLock()

    def names(self, directory: str) -> list[str]:
        """Return names, sorted; empty where the directory is missing."""
        selector = fs.FileSelector(self._at(directory), allow_not_found=True)
        return sorted(info.base_name for info in self._system.get_file_info(selector))

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Return sizes in bytes; `None` for a name that is no file."""
        found = self._system.get_file_info([self._at(name) for name in names])
        return [info.size if info.type == fs.FileType.File else None for info in found]

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises `FileNotFoundError`."""
        with self._system.open_input_stream(self._at(name), compression=None) as stream:
            return bytes(stream.read())

    def create(self, name: str, content: bytes) -> None:
        """Create a file, whole and durable; raises `FileExistsError`."""
        if self.sizes([name]) != [None]:
            raise FileExistsError(self._at(name))
        directory, _, last = self._at(name).rpartition("/")
        draft = f"{directory}/.{last}.{uuid.uuid4()}"
        with self._system.open_output_stream(draft, compression=None) as stream:
            stream.write(content)
        try:
            self._system.move(draft, self._at(name))
        except OSError as error:
            self._system.delete_file(draft)
            if self.sizes([name]) != [None]:
                raise FileExistsError(self._at(name)) from error
            raise
        if self.read(name) != content:  # another writer came between, on a store whose moves refuse nothing
            raise FileExistsError(self._at(name))

    def make_directory(self, name: str) -> None:
        self._system.create_dir(self._at(name), recursive=True)

    def move(self, old: str, new: str) -> None:
        """Move a file atomically. Raises `FileNotFoundError`."""
        self._system.move(self._at(old), self._at(new))

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        if self.sizes([name]) != [None]:
            self._system.delete_file(self._at(name))

    def delete_directory(self, name: str) -> None:
        """Delete a directory with its content, if it exists."""
        self._system.delete_dir_contents(self._at(name), missing_dir_ok=True)
        if self._system.get_file_info([self._at(name)])[0].type == fs.FileType.Directory:
            self._system.delete_dir(self._at(name))

    def sync(self, names: Iterable[str]) -> None:
        """Do nothing: remote files are durable once they are closed."""

    def sync_directories(self, names: Iterable[str]) -> None:
        """Sync these directories and those above them, up to the archive; remote ones as `sync`."""

    def open_output(self, name: str) -> pa.NativeFile:
        return self._system.open_output_stream(self._at(name), compression=None)

    def open_input(self, name: str) -> pa.NativeFile:
        return self._system.open_input_file(self._at(name))


class LocalFiles(Files):
    """Local directory, where a lock holds and `sync` makes durable."""

    def __init__(self, root: str) -> None:
        super().__init__(fs.LocalFileSystem(use_mmap=True), root, f"file://{root}")

    def _own(self, name: str) -> str:
        """Return the path to move or delete; raises `ArchiveDamaged` where a symbolic link leads out of the archive."""
        path, root = self._at(name), os.path.realpath(self._root)
        directory = os.path.realpath(os.path.dirname(path))
        if os.path.commonpath((root, directory)) != root:
            raise ArchiveDamaged(
                f"{path}: a symbolic link leads out of the archive, to {directory}; nothing is moved or deleted there"
            )
        return path

    def lock(self, name: str) -> DirectoryLock:
        try:
            return FileLock(self._at(name))
        except BlockingIOError:
            raise ArchiveTaken(
                f"{self._root}: another run is writing to this archive; wait until it has ended"
            ) from None

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(self._at(directory)))
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            raise InvalidArgument(f"{self._at(directory)} is not a directory") from None

    def create(self, name: str, content: bytes) -> None:
        draft = os.path.join(os.path.dirname(self._at(name)), f".{uuid.uuid4()}")
        try:
            _write(draft, content)
            os.link(draft, self._at(name))  # unlike a rename, refused where the name is taken
        finally:
            if os.path.exists(draft):
                os.unlink(draft)
        self.sync_directories([os.path.dirname(name)])

    def move(self, old: str, new: str) -> None:
        os.rename(self._own(old), self._own(new))

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._own(name))

    def delete_directory(self, name: str) -> None:
        path = self._own(name)
        with contextlib.suppress(FileNotFoundError):
            if os.path.islink(path):
                os.unlink(path)  # and not what it leads to
            else:
                shutil.rmtree(path)

    def sync(self, names: Iterable[str]) -> None:
        for name in names:
            _sync(self._at(name))

    def sync_directories(self, names: Iterable[str]) -> None:
        wanted = {"", *names}
        for name in list(wanted):
            while name := os.path.dirname(name):
                wanted.add(name)
        for name in sorted(wanted, reverse=True):
            _sync(self._at(name))


def files_at(path: str) -> Files:
    """Return the file system of a path or URI. Raises `InvalidArgument` for one that cannot be used."""
    if taken := sorted(set(path) & set(_PATTERN)):
        raise InvalidArgument(f"{path}: Spark takes {' '.join(taken)} in a path for a pattern; use another directory")
    if path.startswith("file:"):
        return LocalFiles(os.path.abspath("/" + path.removeprefix("file:").lstrip("/")))
    if "://" not in path:
        return LocalFiles(os.path.abspath(path))
    try:
        system, inside = fs.FileSystem.from_uri(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidArgument(f"{path}: no file system that can be used: {error}") from error
    return Files(system, inside.rstrip("/"), path.rstrip("/"))


class _NoLock:
    def release(self) -> None:
        """Do nothing, because there is no lock."""


def _relative(name: str) -> str:
    """Return the name, if it is relative and stays below the archive; raises `ArchiveDamaged`."""
    if not {"", ".", ".."}.isdisjoint(name.split("/")) or "\0" in name:
        raise ArchiveDamaged(f"{name!r} is no name of a file of an archive")
    return name


def _write(path: str, content: bytes) -> None:
    """Write durably; the error of a full disk names no file by itself."""
    try:
        with open(path, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
