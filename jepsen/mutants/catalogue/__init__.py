"""The mutants, by the room that they change."""

from typing import Final

from jepsen.mutants.catalogue import disk, raft, storage
from jepsen.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    *disk.MUTANTS,
    *raft.MUTANTS,
    *storage.MUTANTS,
)
