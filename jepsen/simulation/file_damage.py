"""Damage to the files of a machine: a flipped bit or a zeroed page in a segment, a flipped bit in the journal."""

from random import Random

from jepsen.simulation.cluster import GroupPlan
from jepsen.simulation.harm import Damage
from jepsen.simulation.machine import DATA_DIR, Machine
from raftlog.storage.simulated_faults import PAGE_BYTES


def damage_segment(machine: Machine, plan: GroupPlan, random: Random) -> Damage | None:
    """Damage a `.log` or an `.index` of the group; none when there is nothing to damage."""
    disk = machine.disk
    inside = f"/{plan.group_id}/"
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
        machine.note(f"{path}: a bit flips at position {position}")
        wrong = bytes([disk.snapshot()[path][position]])
        return Damage(plan, machine, machine.me, path, position, wrong)
    page = position // PAGE_BYTES
    before = content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]
    if not any(before):
        return None
    disk.zero_page(path, page)
    machine.note(f"{path}: page {page} is zeroed")
    first = next(at for at, byte in enumerate(before) if byte)
    return Damage(plan, machine, machine.me, path, page * PAGE_BYTES + first, b"\0")


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
