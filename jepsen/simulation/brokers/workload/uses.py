"""Features that clients of a run use: consumer groups, idempotent producers, compaction, deletion of records.

Drawn from the seed by a generator of its own. At the level `broker` most runs use some of them; the levels `groups`
and `records` use mainly these, in smaller clusters with fewer faults."""

from dataclasses import dataclass, replace
from random import Random
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFeatures:
    """Features that the clients of one run use: groups, transactions, compaction and others."""

    members: int
    """Total number of members, over all groups that have members."""
    session_timeout_ms: int
    stalls: float
    """Chance, before each request of a member, of a pause longer than its session."""
    storms: float
    """Chance, before each request of a member, that all members of its group leave at once and join again."""
    static_members: float
    """Share of static members: they have an instance id, and rejoin under it."""
    idempotent_producers: int
    """Idempotent producers, each with five requests in flight."""
    restarts: float
    """Chance, before each request of an idempotent producer, that it begins anew with another epoch or id."""
    producers_max: int
    """Number of idempotent producers that a partition stores."""
    replays: float
    """Chance, before each request, that a request that ended long ago is repeated instead, as by a slow network."""
    trimmers: int
    """Clients that delete records."""
    compacted: float
    """Share of topics that are compacted."""
    keys: int
    """Number of keys in each partition of a compacted topic."""
    delete_retention_ms: int
    compaction_lag_ms: int
    once: float = 0.0
    """Share of values in compacted topics whose key is never written again."""
    trims_compacted: bool = False
    """Whether trimmers delete records of compacted topics as well."""


PRODUCERS_MAX: Final = 100_000
"""Number of idempotent producers of a partition that no run reaches."""
NONE: Final = WorkloadFeatures(
    members=0,
    session_timeout_ms=1_000,
    stalls=0.0,
    storms=0.0,
    static_members=0.0,
    idempotent_producers=0,
    restarts=0.0,
    producers_max=PRODUCERS_MAX,
    replays=0.0,
    trimmers=0,
    compacted=0.0,
    keys=1,
    delete_retention_ms=1_000,
    compaction_lag_ms=0,
)


def draw_once(random: Random, uses: WorkloadFeatures) -> WorkloadFeatures:
    """Return a copy in which, by chance, some keys are written only once and trimmers trim compacted topics."""
    return replace(uses, once=random.choice((0.0, 0.2, 0.5)), trims_compacted=random.random() < 0.5)


def draw_uses(random: Random, *, members: bool, records: bool) -> WorkloadFeatures:
    """Draw the features of a run.

    `members`: whether it has consumer group members. `records`: whether it may have idempotent producers, clients
    that delete records, and compacted topics."""
    return WorkloadFeatures(
        members=random.choice((3, 4, 6)) if members else 0,
        session_timeout_ms=random.choice((1_000, 1_000, 2_000)),
        stalls=random.choice((0.0, 0.02, 0.05)),
        storms=random.choice((0.0, 0.02)),
        static_members=random.choice((0.0, 0.0, 0.5, 1.0)),
        idempotent_producers=random.choice((1, 1, 2)) if records else 0,
        restarts=random.choice((0.0, 0.01, 0.05)),
        producers_max=PRODUCERS_MAX,
        replays=0.0,
        trimmers=random.choice((0, 0, 1)) if records else 0,
        compacted=random.choice((0.0, 0.5, 1.0)) if records else 0.0,
        keys=random.choice((2, 5, 20)),
        delete_retention_ms=random.choice((0, 500, 3_000)),
        compaction_lag_ms=random.choice((0, 0, 1_000)),
    )


def with_small_tables(uses: WorkloadFeatures, random: Random) -> WorkloadFeatures:
    """Return, for half of the seeds, features with more producers than a partition keeps, and retries after expiry."""
    if not uses.idempotent_producers or random.random() < 0.5:
        return uses
    return replace(
        uses,
        idempotent_producers=max(2, uses.idempotent_producers),
        producers_max=random.choice((2, 3)),
        replays=random.choice((0.02, 0.1, 0.3)),
        restarts=random.choice((0.05, 0.2)),
    )
