"""Power loss for a program of Python that nobody changed: its files come back as they were when it last synced them.

    in the node's process: `watch` notes each sync, and copies what it made durable → DIRECTORY.durable/
    in the runner, after the process is dead: `lose_power` puts these copies in the place of the files

The model is the one that POSIX allows and a machine need not show: nothing gets to the disk by itself. It is friendly
in one point: a sync of a file also makes its name durable. Files are of one directory, and are written by `write` or
through mappings.
"""

import mmap
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

_END_POSITION_AT: Final = 36
_FIRST_RECORD_AT: Final = 40
"""In the library's journal: where it says how far it goes, and where its first record begins."""


def _copies_of(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.durable")


class _Watch:
    """What the process syncs below the directory."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._copies = directory.resolve(), _copies_of(directory)
        self._copies.mkdir(exist_ok=True)

    def note(self, path: Path) -> None:
        if path.parent == self._directory and path.is_file():
            copy = self._copies / path.name
            shutil.copyfile(path, copy.with_suffix(".part"))
            copy.with_suffix(".part").replace(copy)  # a kill leaves the one or the other

    def note_all(self) -> None:
        for path in self._directory.iterdir():
            self.note(path)


class _WatchedMmap(mmap.mmap):
    """A mapping whose flushes are noted."""

    watch: "_Watch"
    _path: Path | None

    def __new__(cls, fileno: int, *arguments: Any, **named: Any) -> Self:
        mapped = super().__new__(cls, fileno, *arguments, **named)
        mapped._path = _path_of(fileno) if fileno >= 0 else None
        return mapped

    def flush(self, *arguments: int) -> None:
        super().flush(*arguments)
        if self._path is not None:
            self.watch.note(self._path)


def watch(directory: Path) -> None:
    """From now on, for as long as this process lives: all that Python can sync files with goes through here."""
    _WatchedMmap.watch = seen = _Watch(directory)

    def noting(sync: Callable[[int], None]) -> Callable[[int], None]:
        def synced(descriptor: int) -> None:
            sync(descriptor)
            seen.note(_path_of(descriptor))

        return synced

    def sync_all(sync: Callable[[], None] = os.sync) -> None:
        sync()
        seen.note_all()

    replaced: dict[str, Any] = {"fsync": noting(os.fsync), "fdatasync": noting(os.fdatasync), "sync": sync_all}
    for name, function in replaced.items():
        setattr(os, name, function)
    mmap.mmap = _WatchedMmap  # type: ignore[misc]  # the library looks it up when it maps


def _path_of(descriptor: int) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{descriptor}"))


def lose_power(directory: Path, journal: Path) -> str:
    """Of a node that is dead. What was lost, read from the disk before and after."""
    before, names = entries_in(journal), sorted(path.name for path in directory.iterdir())
    copies = sorted(_copies_of(directory).glob("*"))
    for name in names:
        (directory / name).unlink()
    for copy in copies:
        shutil.copyfile(copy, directory / copy.name)
    back = ", ".join(copy.name for copy in copies) or "nothing"
    return (
        f"of its {len(names)} files {back} came back as last synced: {before} entries in the journal before, "
        f"{entries_in(journal)} after"
    )


def entries_in(journal: Path) -> int:
    """How many entries the journal of a node that does not run holds."""
    try:
        content = journal.read_bytes()
    except FileNotFoundError:
        return 0
    (end,) = struct.unpack_from("<I", content, _END_POSITION_AT)
    count, at = 0, _FIRST_RECORD_AT
    while at < end:
        at += struct.unpack_from("<I", content, at)[0] + 8
        count += 1
    return count
