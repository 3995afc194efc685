"""Damage to the files of a machine: a flipped bit or a zeroed page in a segment, a flipped bit in the journal."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from jepsen.simulation.cluster import GroupPlan
from jepsen.simulation.harm import Damage
from jepsen.simulation.machine import DATA_DIR, Machine
from jepsen.simulation.timed_disk import TimedDisk
from raftlog.storage.simulated_faults import PAGE_BYTES


class Wrong(NamedTuple):
    """Bytes of a file that are not what was written."""

    path: str
    position: int
    content: bytes

    def is_in(self, disk: TimedDisk) -> bool:
        """Whether they are still there."""
        if not disk.exists(self.path):
            return False
        file = disk.open(self.path, read_only=True)
        return file.read(self.position, len(self.content)) == self.content


def damage_segment(machine: Machine, plan: GroupPlan, random: Random) -> Damage | None:
    """Damage a `.log` or an `.index` of the group; none when there is nothing to damage."""
    wrong = damage_file_below(machine.disk, f"/{plan.group_id}/", random, machine.note)
    return None if wrong is None else Damage(plan, machine, machine.me, wrong.path, wrong.position, wrong.content)


def damage_file_below(disk: TimedDisk, inside: str, random: Random, note: Callable[[str], None]) -> Wrong | None:
    """Damage a segment's file in a directory whose path has this part."""
    files = [
        (path, content)
        for path, content in disk.snapshot().items()
        if path.endswith((".log", ".index")) and inside in path and "/.raftlog/" not in path and content
    ]
    if not files:
        return None
    path, content = random.choice(files)
    position = random.randrange(len(content))
    if random.random() < 0.7:
        disk.flip_bit(path, position, random.randrange(8))
        note(f"{path}: a bit flips at position {position}")
        return Wrong(path, position, bytes([disk.snapshot()[path][position]]))
    page = position // PAGE_BYTES
    before = content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]
    if not any(before):
        return None
    disk.zero_page(path, page)
    note(f"{path}: page {page} is zeroed")
    first = next(at for at, byte in enumerate(before) if byte)
    return Wrong(path, page * PAGE_BYTES + first, b"\0")


def damage_journal(machine: Machine, random: Random) -> bool:
    """Flip a bit in a part of the journal that was written; false when there is none."""
    files = [
        (path, content)
        for path, content in machine.disk.snapshot().items()
        if path.startswith(f"{DATA_DIR}/.raftlog/journal/{machine.me.disk_uuid}") and any(content)
    ]
    if not files:
        return False
    path, content = random.choice(files)
    written = [at for at in range(0, len(content), PAGE_BYTES) if any(content[at : at + 48])]
    position = random.choice(written) + random.randrange(48)
    machine.disk.flip_bit(path, position, random.randrange(8))
    machine.note(f"{path}: a bit flips at position {position}")
    return True
