"""Incompressible values and batches that all differ, and statistics of latencies."""

import os
from collections.abc import Sequence

from raftlog.records import build_batch

VALUE_BYTES = 100
RECORDS_PER_BATCH = 1_000


def values(count: int, size: int = VALUE_BYTES) -> list[bytes]:
    """Return `count` different random values."""
    pool = os.urandom(count * size)
    return [pool[at : at + size] for at in range(0, len(pool), size)]


def batches(count: int, records: int = RECORDS_PER_BATCH) -> list[bytes]:
    """Return `count` different batches of records of 100 bytes."""
    return [bytes(build_batch(values(records))) for _ in range(count)]


def percentile(sorted_samples: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile of sorted samples."""
    assert sorted_samples, "a percentile needs samples"
    rank = max(1, -(-len(sorted_samples) * percent // 100))
    return sorted_samples[int(rank) - 1]
