"""The garbage collector and records.

Records are tuples and bytes that hold no cycles, made by the hundred thousand. With Python's defaults the collector
walks them again and again and takes nearly half of the time of `produce`; reference counts free them all the same.
"""

import gc

THRESHOLDS = (50_000, 20, 100)


def relax() -> None:
    """Look for cycles less often, for the rest of this process."""
    gc.set_threshold(*THRESHOLDS)
