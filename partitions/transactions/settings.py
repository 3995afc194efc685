"""Settings of transaction coordinators."""

from dataclasses import dataclass

from raftlog.topic_config import DAY_MS


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Settings named like the `transaction.*` and `transactional.id.*` settings of Kafka, with the unit last."""

    max_timeout_ms: int = 900_000
    """Longest timeout that a producer may ask for."""
    id_expiration_ms: int = 7 * DAY_MS
    """Time without a transaction after which a transactional id expires."""
    max_ids: int = 100_000
    """Limit of the transactional ids of one coordinator."""
    max_partitions: int = 10_000
    """Limit of the partitions of one transaction, and of its groups."""
