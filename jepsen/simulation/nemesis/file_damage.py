"""Damage to files: a flipped bit or a zeroed page in a segment, a flipped bit in the journal.

Damage is recorded with its bytes: its repair is detected in the file, independently of reports of the product.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple, Protocol
from uuid import UUID

from jepsen.simulation.disk.simulated_faults import PAGE_BYTES
from jepsen.simulation.machine import DATA_DIR
from jepsen.simulation.timed_disk import TimedDisk


class DiskDamage(Protocol):
    """Interface of damage on a disk."""

    @property
    def path(self) -> str:
        """File that is damaged."""
        ...

    def is_in(self, disk: TimedDisk) -> bool:
        """Return whether the damage is still in the disk's files."""
        ...


class FlippedBit(NamedTuple):
    """Flipped bit; `content` is the wrong byte."""

    path: str
    position: int
    content: bytes

    def __str__(self) -> str:
        return f"{self.path} at {self.position}"

    def is_in(self, disk: TimedDisk) -> bool:
        """Return whether the file still has the wrong byte."""
        return _read(disk, self.path, self.position, 1) == self.content


class ZeroedPage(NamedTuple):
    """Zeroed page; `before` is its former content. It counts as damaged until all of the content is restored."""

    path: str
    position: int
    before: bytes

    def __str__(self) -> str:
        return f"{self.path}: the page at {self.position}"

    def is_in(self, disk: TimedDisk) -> bool:
        """Return whether some bytes of the page are still zero instead of their former values.

        False as well once the page has other content, such as that of a new file."""
        now = _read(disk, self.path, self.position, len(self.before))
        pairs = list(zip(now, self.before, strict=False))
        return any(new != old for new, old in pairs) and all(new in (old, 0) for new, old in pairs)


def _read(disk: TimedDisk, path: str, position: int, length: int) -> bytes:
    """Return bytes of a file; empty for a missing file."""
    return disk.snapshot_of(path)[position : position + length] if disk.exists(path) else b""


def damage_file(
    disk: TimedDisk, is_meant: Callable[[str], bool], random: Random, note: Callable[[str], None]
) -> DiskDamage | None:
    """Damage a random file whose path satisfies `is_meant`; return the damage, or None if nothing was damaged."""
    files = [
        (path, content)
        for path, content in disk.snapshot().items()
        if path.endswith((".log", ".index")) and is_meant(path) and content
    ]
    if not files:
        return None
    path, content = random.choice(files)
    position = random.randrange(len(content))
    if random.random() < 0.7:
        disk.flip_bit(path, position, random.randrange(8))
        note(f"{path}: a bit flips at position {position}")
        return FlippedBit(path, position, disk.snapshot_of(path)[position : position + 1])
    page = position // PAGE_BYTES
    before = content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]
    if not any(before):
        return None
    disk.zero_page(path, page)
    note(f"{path}: page {page} is zeroed")
    return ZeroedPage(path, page * PAGE_BYTES, before)


def damage_journal(disk: TimedDisk, disk_uuid: UUID, random: Random, note: Callable[[str], None]) -> bool:
    """Flip a bit in the written part of the journal; return false if nothing is written."""
    files = [
        (path, content)
        for path, content in disk.snapshot().items()
        if path.startswith(f"{DATA_DIR}/.raftlog/journal/{disk_uuid}") and any(content)
    ]
    if not files:
        return False
    path, content = random.choice(files)
    written = [at for at in range(0, len(content), PAGE_BYTES) if any(content[at : at + 48])]
    position = random.choice(written) + random.randrange(48)
    disk.flip_bit(path, position, random.randrange(8))
    note(f"{path}: a bit flips at position {position}")
    return True
