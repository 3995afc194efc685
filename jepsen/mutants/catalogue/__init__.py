"""The mutants, by the room that they change."""

from typing import Final

from jepsen.mutants.catalogue import raft, storage
from jepsen.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    *raft.MUTANTS,
    *storage.MUTANTS,
)
