"""What this machine can do to a broker."""

from collections.abc import Iterable

from jepsen import clocks, disk
from jepsen.nemeses.fault import FaultKind
from jepsen.runner.cluster import OF_DISKS


def why_not(kinds: Iterable[FaultKind]) -> str | None:
    """Why not all of these faults can be made here, and what to do about it; None: they can."""
    wanted = set(kinds)
    if wanted & OF_DISKS and (reason := disk.why_not()):
        return f"{', '.join(sorted(wanted & OF_DISKS))}: {reason}"
    if "clock" in wanted and (reason := clocks.why_not()):
        return f"clock: {reason}"
    return None
