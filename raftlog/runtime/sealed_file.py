"""Small files with one JSON object on one line and a CRC-32C over the rest of it, in the layout of the meta file.

    beside its final name → synced → renamed → directory synced

So at every moment the file is the old one or the new one, whole. For what a process must know of itself and of others
before it says anything; called by `node_identity` and, above it, by whoever writes such a file.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from crc32c import crc32c

from raftlog.errors import FormatError, SmallFileDamaged
from raftlog.storage.disk import Disk, File

FORMAT_VERSION: Final = 1
"""Raised when an older program could no longer read such a file."""
_NEW: Final = ".new"


def write_sealed(disk: Disk, path: str, kind: str, fields: Mapping[str, Any]) -> None:
    """Replace the file at `path`, durably; blocking. `fields` are JSON values. Raises `OSError`."""
    file = _write_beside(disk, path, kind, fields)
    try:
        disk.sync([file])
    finally:
        file.close()
    disk.rename(path + _NEW, path)
    disk.sync([], [_directory_of(path)])


def submit_sealed(
    disk: Disk,
    path: str,
    kind: str,
    fields: Mapping[str, Any],
    done: Callable[[OSError | None], None],
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """The same without blocking for the syncs: `done` is called later, once. Raises `OSError`, and then never calls.

    Once `is_over`, the disk takes no syncs any more: the old file stays, and nobody is called.
    """
    file = _write_beside(disk, path, kind, fields)

    def synced(error: OSError | None) -> None:
        file.close()
        if is_over():
            return
        if error is not None:
            done(error)
            return
        try:
            disk.rename(path + _NEW, path)
            disk.submit_sync([], [_directory_of(path)], done)
        except OSError as refused:
            done(refused)

    disk.submit_sync([file], [], synced)


def read_sealed(disk: Disk, path: str, kind: str) -> dict[str, Any] | None:
    """The fields that were written; `None` without a file.

    Raises `SmallFileDamaged`, and `FormatError` when it is of another kind or version.
    """
    if not disk.exists(path):
        return None
    file = disk.open(path, read_only=True)
    try:
        text = file.read(0, file.size())
    finally:
        file.close()
    try:
        body = json.loads(text)
        stated, version, found = body.pop("crc32c"), body.pop("format"), body.pop("kind")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise SmallFileDamaged(f"{path} is damaged ({error})") from None
    if stated != _checksum({"format": version, "kind": found, **body}):
        raise SmallFileDamaged(f"{path} is damaged: its checksum does not match")
    if version != FORMAT_VERSION:
        raise FormatError(f"{path} has format version {version}; this program reads version {FORMAT_VERSION}")
    if found != kind:
        raise FormatError(f"{path} holds {found!r}, and not {kind!r}")
    return dict(body)


def _write_beside(disk: Disk, path: str, kind: str, fields: Mapping[str, Any]) -> File:
    body = {"format": FORMAT_VERSION, "kind": kind, **fields}
    body["crc32c"] = _checksum(body)
    beside = path + _NEW
    if disk.exists(beside):
        disk.unlink(beside)
    file = disk.open(beside, create=True)
    try:
        file.write(0, [json.dumps(body).encode() + b"\n"])
    except BaseException:
        file.close()
        raise
    return file


def _directory_of(path: str) -> str:
    return path.rpartition("/")[0]


def _checksum(body: Mapping[str, Any]) -> int:
    return int(crc32c(json.dumps(body, sort_keys=True).encode()))
