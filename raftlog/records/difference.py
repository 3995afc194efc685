"""First difference between two copies of the same bytes, for reports about replicas."""

from raftlog.types import Buffer


def first_difference(data: Buffer, other: Buffer) -> int:
    """Return the position of the first different byte; the length of the shorter buffer if it is a prefix."""
    length = min(len(data), len(other))
    low, high = 0, length
    # Prefixes that are equal stay equal when they get shorter, so bisection finds the border with C comparisons.
    while low < high:
        middle = (low + high + 1) // 2
        if memoryview(data)[low:middle] == memoryview(other)[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
