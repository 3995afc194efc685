"""Damage to small files: a flipped bit, or the loss of half the content, of all content, or of the file.

The machine is down meanwhile, so that the next process finds the loss: a running process would not read the file."""

from enum import Enum
from random import Random
from typing import Final

from jepsen.simulation.brokers.cluster import Machine

VERSION: Final = b'"format": '
"""Bytes before the version of a small file."""


class Loss(Enum):
    """Kind of damage to a small file."""

    FLIPPED = "flipped"
    HALVED = "cut in half"
    EMPTIED = "emptied"
    REMOVED = "removed"


def flip_bit(machine: Machine, path: str, content: bytes, random: Random) -> None:
    """Flip a bit anywhere except in the version: an unknown version is refused by design."""
    position = random.randrange(len(content))
    if position == content.find(VERSION) + len(VERSION):
        position = 0
    machine.disk.flip_bit(path, position, random.randrange(8))
    machine.note(f"{path}: a bit flips at position {position}")


def damage_small_file(machine: Machine, path: str, content: bytes, random: Random) -> None:
    """Damage, truncate or delete a file of a stopped machine, at random."""
    assert machine.node.process is None, f"{machine} runs"
    loss = random.choice(list(Loss))
    if loss is Loss.FLIPPED:
        flip_bit(machine, path, content, random)
        return
    if loss is Loss.REMOVED:
        machine.disk.unlink(path)
    else:
        file = machine.disk.open(path)
        file.truncate(len(content) // 2 if loss is Loss.HALVED else 0)
        file.close()
    machine.note(f"{path}: is {loss.value}")
