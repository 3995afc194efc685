"""File system of an archive, with only the operations that an archive needs.

`files_at(path)` returns a `Files` object for a local path, or for a URI that pyarrow supports (`hdfs://…`, `s3://…`).
All modules of this package use it, on the driver and in tasks. Names are relative to the archive, with `/`.

The order of an archive's steps relies on these guarantees: `create` succeeds for one caller only; names that `create`,
`sync` and `sync_directories` were called for are durable when they return; `move` is atomic. Local file systems and
HDFS give these guarantees. Object stores move by copying, and their `create` usually detects another writer too late:
there the caller must run a single job at a time."""

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
    """Directory of one of pyarrow's file systems, with everything below it; base of `LocalFiles`."""

    def __init__(self, system: fs.FileSystem, root: str, uri: str) -> None:
        self._system, self._root = system, root
        self.uri = uri
        """URI for Spark to read, without a `/` at the end."""

    def _path_of(self, name: str) -> str:
        """Return the path in the file system of a name relative to the archive."""
        return f"{self._root}/{_check_relative(name)}" if name else self._root

    def lock(self, name: str) -> DirectoryLock:
        """Take the lock, until `release` or the exit of the process; raises `ArchiveTaken` if another run holds it.

        Does nothing for remote file systems, which have no locks: there only the claim in the archive's commits
        excludes other runs.
        """
        return _NoLock()

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; none if it does not exist."""
        selector = fs.FileSelector(self._path_of(directory), allow_not_found=True)
        return sorted(info.base_name for info in self._system.get_file_info(selector))

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Return the sizes of files in bytes; `None` for a name that is no file."""
        found = self._system.get_file_info([self._path_of(name) for name in names])
        return [info.size if info.type == fs.FileType.File else None for info in found]

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises `FileNotFoundError`."""
        with self._system.open_input_stream(self._path_of(name), compression=None) as stream:
            return bytes(stream.read())

    def create(self, name: str, content: bytes) -> None:
        """Create a file atomically and durably; raises `FileExistsError`."""
        if self.sizes([name]) != [None]:
            raise FileExistsError(self._path_of(name))
        directory, _, last = self._path_of(name).rpartition("/")
        draft = f"{directory}/.{last}.{uuid.uuid4()}"
        with self._system.open_output_stream(draft, compression=None) as stream:
            stream.write(content)
        try:
            self._system.move(draft, self._path_of(name))
        except OSError as error:
            self._system.delete_file(draft)
            if self.sizes([name]) != [None]:
                raise FileExistsError(self._path_of(name)) from error
            raise
        if self.read(name) != content:  # another writer came between, on a store whose moves refuse nothing
            raise FileExistsError(self._path_of(name))

    def make_directory(self, name: str) -> None:
        """Create a directory and those above it, if they do not exist."""
        self._system.create_dir(self._path_of(name), recursive=True)

    def move(self, old: str, new: str) -> None:
        """Move a file atomically. Raises `FileNotFoundError`."""
        self._system.move(self._path_of(old), self._path_of(new))

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        if self.sizes([name]) != [None]:
            self._system.delete_file(self._path_of(name))

    def delete_directory(self, name: str) -> None:
        """Delete a directory with its content, if it exists."""
        self._system.delete_dir_contents(self._path_of(name), missing_dir_ok=True)
        if self._system.get_file_info([self._path_of(name)])[0].type == fs.FileType.Directory:
            self._system.delete_dir(self._path_of(name))

    def sync(self, names: Iterable[str]) -> None:
        """Do nothing: remote files are durable once they are closed."""

    def sync_directories(self, names: Iterable[str]) -> None:
        """Sync these directories and those above them up to the archive; does nothing for remote files."""

    def open_output(self, name: str) -> pa.NativeFile:
        """Open a new file for writing."""
        return self._system.open_output_stream(self._path_of(name), compression=None)

    def open_input(self, name: str) -> pa.NativeFile:
        """Open a file for reading."""
        return self._system.open_input_file(self._path_of(name))


class LocalFiles(Files):
    """Local directory, in which `lock` excludes other runs and `sync` makes files durable."""

    def __init__(self, root: str) -> None:
        super().__init__(fs.LocalFileSystem(use_mmap=True), root, f"file://{root}")

    def _path_to_change(self, name: str) -> str:
        """Return the path of a name, to move or delete; raises `ArchiveDamaged` if it leads out of the archive."""
        path, root = self._path_of(name), os.path.realpath(self._root)
        directory = os.path.realpath(os.path.dirname(path))
        if os.path.commonpath((root, directory)) != root:
            raise ArchiveDamaged(
                f"{path}: a symbolic link leads out of the archive, to {directory}; nothing is moved or deleted there"
            )
        return path

    def lock(self, name: str) -> DirectoryLock:
        """Lock a directory for this run. Raises `ArchiveTaken` if another run holds the lock."""
        try:
            return FileLock(self._path_of(name))
        except BlockingIOError:
            raise ArchiveTaken(
                f"{self._root}: another run is writing to this archive; wait until it has ended"
            ) from None

    def names(self, directory: str) -> list[str]:
        """Return the sorted names in a directory, none if it does not exist. Raises `InvalidArgument` for a file."""
        try:
            return sorted(os.listdir(self._path_of(directory)))
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            raise InvalidArgument(f"{self._path_of(directory)} is not a directory") from None

    def create(self, name: str, content: bytes) -> None:
        """Write a file durably. Raises `FileExistsError` if the name is taken."""
        draft = os.path.join(os.path.dirname(self._path_of(name)), f".{uuid.uuid4()}")
        try:
            _write(draft, content)
            os.link(draft, self._path_of(name))  # unlike a rename, refused where the name is taken
        finally:
            if os.path.exists(draft):
                os.unlink(draft)
        self.sync_directories([os.path.dirname(name)])

    def move(self, old: str, new: str) -> None:
        """Rename a file or directory, and replace a file of the new name."""
        os.rename(self._path_to_change(old), self._path_to_change(new))

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path_to_change(name))

    def delete_directory(self, name: str) -> None:
        """Delete a directory with its content; a symbolic link itself is deleted."""
        path = self._path_to_change(name)
        with contextlib.suppress(FileNotFoundError):
            if os.path.islink(path):
                os.unlink(path)  # and not what it leads to
            else:
                shutil.rmtree(path)

    def sync(self, names: Iterable[str]) -> None:
        """Sync the content of these files."""
        for name in names:
            _sync(self._path_of(name))

    def sync_directories(self, names: Iterable[str]) -> None:
        """Sync these directories and all their parents up to the root."""
        wanted = {"", *names}
        for name in list(wanted):
            while name := os.path.dirname(name):
                wanted.add(name)
        for name in sorted(wanted, reverse=True):
            _sync(self._path_of(name))


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
    """Lock object for remote file systems, which have no locks."""

    def release(self) -> None:
        """Do nothing, because there is no lock."""


def _check_relative(name: str) -> str:
    """Return the name; raises `ArchiveDamaged` unless it is relative and stays below the archive."""
    if not {"", ".", ".."}.isdisjoint(name.split("/")) or "\0" in name:
        raise ArchiveDamaged(f"{name!r} is no name of a file of an archive")
    return name


def _write(path: str, content: bytes) -> None:
    """Write a new file durably. Raises `OSError` with the path, which the error of a full disk lacks."""
    try:
        with open(path, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def _sync(path: str) -> None:
    """Sync a file or directory of the operating system."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
