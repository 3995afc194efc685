"""What this machine can do to a broker."""

from collections.abc import Iterable

from jepsen import clocks, disk
from jepsen.nemeses.facts import FACTS
from jepsen.nemeses.fault import FaultKind


def why_not(kinds: Iterable[FaultKind]) -> str | None:
    """Why not all of these faults can be made here, and what to do about it; None: they can."""
    wanted = set(kinds)
    for part, why in (("disk", disk.why_not), ("clock", clocks.why_not)):
        of_part = sorted(kind for kind in wanted if FACTS[kind].beneath == part)
        if of_part and (reason := why()):
            return f"{', '.join(of_part)}: {reason}"
    return None
