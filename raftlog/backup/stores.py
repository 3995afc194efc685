"""Stores of backups: objects by path, each written as a whole. All calls block, and may come from several threads."""

import errno
import importlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from raftlog.backup.errors import BackupRefused, StoreUnreachable

_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


class BackupStore(Protocol):
    """Store of objects by path, whose parts are separated by `/`. All methods raise `StoreUnreachable`."""

    address: str

    def read(self, path: str) -> bytes | None:
        """Return the bytes of an object; None if it does not exist."""
        ...

    def write(self, path: str, data: bytes | bytearray) -> None:
        """Write or replace an object. On return it is complete and durable; after an error it is unchanged."""
        ...

    def create(self, path: str, data: bytes) -> bool:
        """Write an object unless one exists at the path; return whether it was written."""
        ...

    def delete(self, path: str) -> None:
        """Delete an object if it exists."""
        ...

    def list(self, folder: str) -> list[str]:
        """Return the paths of all objects below a folder."""
        ...

    def names(self) -> set[str]:
        """Return the names of files and folders at the address."""
        ...


class DirectoryStore:
    """Store in a local directory."""

    def __init__(self, path: str) -> None:
        self.address = path
        self._root = Path(path)

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        with _errors_of(self.address):
            try:
                return (self._root / path).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def write(self, path: str, data: bytes | bytearray) -> None:
        """Write a file durably, and replace an existing one."""
        with _errors_of(self.address):
            staged, target = self._stage(path, data)
            staged.replace(target)
            _sync_directory(target.parent)

    def create(self, path: str, data: bytes) -> bool:
        """Write a file durably; return false if it exists already."""
        with _errors_of(self.address):
            staged, target = self._stage(path, data)
            try:
                os.link(staged, target)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                raise BackupRefused(
                    f"the file system of {self.address} has no hard links, with which commits are created exclusively; "
                    "name a place on another file system"
                ) from None
            finally:
                staged.unlink()
            _sync_directory(target.parent)
        return True

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        with _errors_of(self.address):
            (self._root / path).unlink(missing_ok=True)

    def list(self, folder: str) -> list[str]:
        """Return the sorted paths of all files below a folder, relative to the root."""
        with _errors_of(self.address):
            found = (self._root / folder).rglob("*")
            return sorted(str(each.relative_to(self._root)) for each in found if each.is_file())

    def names(self) -> set[str]:
        """Return the names directly below the root; none if it does not exist."""
        with _errors_of(self.address):
            return {each.name for each in self._root.iterdir()} if self._root.exists() else set()

    def _stage(self, path: str, data: bytes | bytearray) -> tuple[Path, Path]:
        """Write the bytes durably to a new file beside the target; return the paths of file and target."""
        target = self._root / path
        if not target.parent.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            for parent in (target.parent, *target.parent.parents):
                _sync_directory(parent.parent)
                if parent == self._root:
                    break
        staged = target.with_name(f"{target.name}.{uuid.uuid4().hex}.new")
        try:
            with staged.open("xb") as file:
                file.write(data)
                file.flush()
                os.fdatasync(file.fileno())
        except OSError:
            with suppress(OSError):
                staged.unlink(missing_ok=True)
            raise
        return staged, target


def _sync_directory(path: Path) -> None:
    """Sync the names in a directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _errors_of(address: str) -> Iterator[None]:
    """Convert errors of the file system in the block to `StoreUnreachable`."""
    try:
        yield
    except OSError as error:
        raise StoreUnreachable(f"the backup in {address}: {error.filename or address}: {error.strerror}") from error


def open_store(address: str) -> BackupStore:
    """Return the store at a path, or at an address of fsspec such as s3://bucket/path. Raises `BackupRefused`."""
    scheme, is_url, rest = address.partition("://")
    if not (rest if is_url else address):
        raise BackupRefused(f"{address!r} names no place; name a directory or s3://BUCKET/PATH")
    if not is_url:
        return DirectoryStore(address)
    if scheme == "file":
        return DirectoryStore(rest)
    try:
        module = importlib.import_module("raftlog.backup.object_store")  # fsspec is optional
    except ImportError as error:
        raise BackupRefused(
            f"{address} needs the package {error.name}: in a clone of raftlog, run pip install '.[store]'"
        ) from None
    store: BackupStore = module.ObjectStore(address)
    return store
