"""The mutants, by the room that they change."""

from typing import Final

from jepsen.mutants.catalogue import disk, journal, producers, raft, replica, rpc, runtime, storage
from jepsen.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    *raft.MUTANTS,
    *storage.MUTANTS,
    *disk.MUTANTS,
    *journal.MUTANTS,
    *runtime.MUTANTS,
    *replica.MUTANTS,
    *producers.MUTANTS,
    *rpc.MUTANTS,
)
