"""Thresholds of Python's garbage collector that suit a broker.

Records are tuples and bytes that hold no cycles, made by the hundred thousand. With Python's defaults the collector
traverses them repeatedly and takes nearly half of the time of `produce`; reference counts free them all the same.
"""

import gc

THRESHOLDS = (50_000, 20, 100)


def collect_less_often() -> None:
    """Collect garbage less often, for the rest of this process."""
    gc.set_threshold(*THRESHOLDS)
