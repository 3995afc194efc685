"""Mutants, by the package that they change."""

from typing import Final

from jepsen.mutants.catalogue import (
    client,
    coordination,
    disk,
    formats,
    groups,
    journal,
    kafka,
    memory,
    participants,
    producer_expiry,
    producers,
    raft,
    replica,
    rpc,
    runtime,
    security,
    storage,
    transactions,
)
from jepsen.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    *disk.MUTANTS,
    *raft.MUTANTS,
    *storage.MUTANTS,
    *journal.MUTANTS,
    *runtime.MUTANTS,
    *replica.MUTANTS,
    *groups.MUTANTS,
    *formats.MUTANTS,
    *producers.MUTANTS,
    *producer_expiry.MUTANTS,
    *client.MUTANTS,
    *rpc.MUTANTS,
    *memory.MUTANTS,
    *kafka.MUTANTS,
    *security.MUTANTS,
    *transactions.MUTANTS,
    *participants.MUTANTS,
    *coordination.MUTANTS,
)
