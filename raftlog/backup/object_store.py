"""Backup store in an object store that fsspec reaches, such as S3.

Objects are written with one request each, and created with `If-None-Match`. Whether the store obeys this condition is
checked once, since otherwise two runs could write one backup. Imports fsspec, which is optional."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import fsspec

from raftlog.backup.errors import BackupRefused, StoreUnreachable
from raftlog.backup.manifest import RUNS

_EXISTS: Final = ("PreconditionFailed", "ConditionalRequestConflict")
"""Codes of S3 for an object that exists, or that another request creates now."""


class ObjectStore:
    """Store at an address of fsspec; credentials and endpoint come from environment variables (`AWS_…` for S3)."""

    def __init__(self, address: str) -> None:
        """Connect to the store. Raises `BackupRefused`."""
        self.address = address.rstrip("/")
        with self._errors():
            try:
                self._files, self._root = fsspec.core.url_to_fs(
                    self.address, use_listings_cache=False, skip_instance_cache=True
                )
            except (ImportError, ValueError) as error:
                raise BackupRefused(f"{address} cannot be used: {error}; for S3 use s3://BUCKET/PATH") from None
        self._is_checked = False

    def read(self, path: str) -> bytes | None:
        """Return the content of an object; None if it does not exist."""
        with self._errors():
            try:
                return bytes(self._files.cat_file(self._place(path)))
            except FileNotFoundError:
                return None

    def write(self, path: str, data: bytes | bytearray) -> None:
        """Write an object, and replace an existing one."""
        with self._errors():
            self._files.pipe_file(self._place(path), bytes(data))

    def create(self, path: str, data: bytes) -> bool:
        """Write an object; return false if it exists already. The first call checks that the storage supports this."""
        if not self._is_checked:
            self._check_exclusive()
        return self._create(path, data)

    def delete(self, path: str) -> None:
        """Delete an object, if it exists."""
        with self._errors():
            try:
                self._files.rm_file(self._place(path))
            except FileNotFoundError:
                return

    def list(self, folder: str) -> list[str]:
        """Return the sorted paths of all objects below a folder, relative to the root."""
        with self._errors():
            try:
                found = self._files.find(self._place(folder))
            except FileNotFoundError:
                return []
        begin = len(self._root) + 1
        return sorted(str(each)[begin:] for each in found)

    def names(self) -> set[str]:
        """Return the names directly below the root."""
        with self._errors():
            try:
                found = {str(each).rstrip("/") for each in self._files.ls(self._root, detail=False)}
            except FileNotFoundError:
                return set()
        # Consoles mark an empty folder with an object of its own name.
        return {each.rpartition("/")[2] for each in found - {self._root.rstrip("/")}}

    def _place(self, path: str) -> str:
        """Return the path in the object store."""
        return f"{self._root}/{path}"

    def _create(self, path: str, data: bytes) -> bool:
        """Write an object unless it exists; return whether it was written."""
        with self._errors():
            try:
                self._files.pipe_file(self._place(path), data, mode="create")
            except FileExistsError:
                return False
            except OSError as error:
                if _code_of(error) in _EXISTS:
                    return False
                raise
        return True

    def _check_exclusive(self) -> None:
        """Raise `BackupRefused` if the store lets an object be created twice."""
        path = f"{RUNS}/{uuid.uuid4()}"
        try:
            self._create(path, b"1")  # false if the answer to a first attempt was lost
            is_obeyed = not self._create(path, b"2") and self.read(path) == b"1"
        finally:
            self.delete(path)
        if not is_obeyed:
            raise BackupRefused(
                f"{self.address}: the store ignores If-None-Match, so two runs could write one backup; "
                "use a store with conditional writes"
            )
        self._is_checked = True

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors in the block, which each store's package has of its own, to `StoreUnreachable`."""
        try:
            yield
        except BackupRefused:
            raise
        except Exception as error:
            raise StoreUnreachable(f"the store at {self.address}: {_describe(error)}") from error


def _code_of(error: BaseException) -> str:
    """Return the code of the S3 error behind an error; empty without one."""
    cause: Any = error.__cause__ or error
    response = getattr(cause, "response", None)
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    if (
        code is None
        and getattr(error, "errno", None) is not None
        and "At least one of the pre-conditions" in str(error)
    ):
        return "PreconditionFailed"
    return str(code or "")


def _describe(error: Exception) -> str:
    """Return the text of an error, with its type unless it is an `OSError`."""
    text = str(error) or type(error).__name__
    return text if isinstance(error, OSError) else f"{type(error).__name__}: {text}"
