"""Small files with one JSON object on one line and a CRC-32C over the rest of it, in the layout of the meta file.

    beside its final name → synced → renamed → directory synced

So at every moment the file is the old one or the new one, complete. Such files hold state that a process needs before
it sends its first message. Called by `node_identity` and, above it, by the writers of such files."""

from collections.abc import Callable, Mapping
from typing import Any

from raftlog.errors import FormatError
from raftlog.storage.directory import FORMAT_VERSION
from raftlog.storage.disk import Disk
from raftlog.storage.json_file import JsonFile, place_json, read_json_file, replace_json, stage_json


def write_sealed(disk: Disk, path: str, kind: str, fields: Mapping[str, Any]) -> None:
    """Replace the file at `path`, durably; blocking. `fields` are JSON values. Raises `OSError`."""
    replace_json(disk, path, _seal(kind, fields))


def submit_sealed(
    disk: Disk,
    path: str,
    kind: str,
    fields: Mapping[str, Any],
    done: Callable[[OSError | None], None],
    has_ended: Callable[[], bool] = lambda: False,
) -> None:
    """Replace the file at `path` without blocking for the syncs.

    `done` is called later, once; not if this raises `OSError`. When `has_ended` returns true after the first sync, the
    disk accepts no syncs any more: the old file stays, and `done` is not called."""
    file = stage_json(disk, path, _seal(kind, fields))

    def place(error: OSError | None) -> None:
        """Rename the synced temporary file to its final name and sync the directory; then call `done`."""
        file.close()
        if has_ended():
            return
        if error is not None:
            done(error)
            return
        try:
            place_json(disk, path)
            disk.submit_sync([], [path.rpartition("/")[0]], done)
        except OSError as refused:
            done(refused)

    disk.submit_sync([file], [], place)


def read_sealed(disk: Disk, path: str, kind: str) -> JsonFile | None:
    """Return the file's content; None without a file.

    Raises `SmallFileDamaged`, and `FormatError` when it is of another kind or version."""
    found = read_json_file(disk, path)
    if found is None:
        return None
    if found.format_version != FORMAT_VERSION:
        raise FormatError(
            f"{path} has format version {found.format_version}; this program reads version {FORMAT_VERSION}: use the "
            "release that wrote it, or start with an empty directory"
        )
    if found.kind != kind:
        raise FormatError(f"{path} holds {found.kind!r}, and not {kind!r}")
    return found


def _seal(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with the format version and the kind of the file."""
    return {"format": FORMAT_VERSION, "kind": kind, **fields}
