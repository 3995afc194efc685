"""Faults that this machine supports."""

from collections.abc import Iterable

from jepsen import clocks, disk
from jepsen.nemeses.fault import FaultKind
from jepsen.nemeses.kind_table import FACTS


def unsupported_reason(kinds: Iterable[FaultKind]) -> str | None:
    """Return the reason why not all of these faults can be injected here, with the remedy; None when they can."""
    wanted = set(kinds)
    for part, why in (("disk", disk.unsupported_reason), ("clock", clocks.unsupported_reason)):
        of_part = sorted(kind for kind in wanted if FACTS[kind].beneath == part)
        if of_part and (reason := why()):
            return f"{', '.join(of_part)}: {reason}"
    return None
