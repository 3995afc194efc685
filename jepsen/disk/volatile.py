"""State of a node's files and names that is not durable, as recorded by its shim.

The layout is that of `shim/shim.h`: a page with counts and positions, the slots, the operations on names, and an image
of 4 KiB for each slot."""

import mmap
import struct
from collections import defaultdict
from pathlib import Path
from typing import Final, NamedTuple

PAGE_BYTES: Final = 4096
_MAGIC: Final = b"jdmemo01"
_HEADER: Final = struct.Struct("8s6Q")
_SLOT: Final = struct.Struct("QqQQqII")
_OP: Final = struct.Struct("QIIQ")
_CHANGE: Final = struct.Struct("QQ256s")
_FREE, _LOST, _WHOLE_SIZE = 0, 2, -1


class Page(NamedTuple):
    """Changed page: its durable content, and whether a sync of its present content failed."""

    durable: bytes
    is_lost: bool


class File(NamedTuple):
    """State of a file that is not durable."""

    durable_size: int | None
    """Durable size; None if the present size is durable."""
    pages: dict[int, Page]


class Change(NamedTuple):
    """Changed entry of a directory; `before` is its former inode, 0 for none."""

    directory: int
    before: int
    name: str


class Operation(NamedTuple):
    """Change of one name in a directory, or of the two names of a rename; `sequence` counts operations from 1."""

    sequence: int
    changes: tuple[Change, ...]

    @property
    def directories(self) -> list[int]:
        """Inodes of the changed directories, each once."""
        return list(dict.fromkeys(change.directory for change in self.changes))


class Volatile(NamedTuple):
    """State of all files and names that is not durable."""

    files: dict[int, File]
    """Files by inode."""
    operations: list[Operation]
    """Operations that are not durable, oldest first."""


def read_volatile(path: Path) -> Volatile:
    """Return the volatile state at the end of a process; an empty state if no process has written yet."""
    if not path.exists() or not path.stat().st_size:
        return Volatile({}, [])
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        magic, _, ops, slots_at, ops_at, images_at, slots_used = _HEADER.unpack_from(memory)
        if magic == bytes(8):
            return Volatile({}, [])  # the process ended before its first record
        assert magic == _MAGIC, f"{path} is of another version: {magic!r}"
        return Volatile(_read_files(memory, slots_at, slots_used, images_at), _read_operations(memory, ops_at, ops))


def _read_files(memory: mmap.mmap, at: int, count: int, images_at: int) -> dict[int, File]:
    """Return, by inode, each file with unsynced changes: its durable size and its changed pages.

    A page may have several slots. The oldest slot has the durable content; the newest slot decides whether a later
    sync can make the present content durable."""
    slots = [(number, *_SLOT.unpack_from(memory, at + number * _SLOT.size)) for number in range(count)]
    sizes: dict[int, int] = {}
    pages: defaultdict[int, dict[int, Page]] = defaultdict(dict)
    for number, inode, page, _, _, size, state, is_zero in sorted(slots, key=lambda slot: slot[3]):
        if state == _FREE:
            continue
        if page == _WHOLE_SIZE:
            sizes.setdefault(inode, size)
        elif (older := pages[inode].get(page)) is not None:
            pages[inode][page] = older._replace(is_lost=state == _LOST)
        else:
            start = images_at + number * PAGE_BYTES
            durable = bytes(PAGE_BYTES) if is_zero else memory[start : start + PAGE_BYTES]
            pages[inode][page] = Page(durable, state == _LOST)
    return {inode: File(sizes.get(inode), pages[inode]) for inode in sorted({*sizes, *pages})}


def _read_operations(memory: mmap.mmap, at: int, count: int) -> list[Operation]:
    """Return the operations that are not durable, oldest first, from a table of `count` rows at position `at`."""
    operations = []
    for start in range(at, at + count * (bytes_each := _OP.size + 2 * _CHANGE.size), bytes_each):
        sequence, changes, _, _ = _OP.unpack_from(memory, start)
        if sequence:
            positions = (start + _OP.size + number * _CHANGE.size for number in range(changes))
            found = tuple(_read_change(memory, position) for position in positions)
            operations.append(Operation(sequence, found))
    return sorted(operations)


def _read_change(memory: mmap.mmap, at: int) -> Change:
    """Return the changed directory entry that is stored at position `at`."""
    directory, before, name = _CHANGE.unpack_from(memory, at)
    return Change(directory, before, name.split(b"\0", 1)[0].decode(errors="surrogateescape"))
