"""Table of all kinds of faults and their properties; `docs/CONTRIBUTING.md` explains how to add a kind.

The schedule, the nemesis, clusters, the command line and the strict checker use this table. The names of the kinds are
`jepsen.nemeses.fault.FaultKind`.
"""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from jepsen.nemeses.fault import FaultKind
from jepsen.nemeses.kinds import Clock, Damage, Full, Kill, Kind, Pause, Power, Stall, Sync
from jepsen.nemeses.network_faults import PACKET_CONDITIONS


class KindFacts(NamedTuple):
    """Properties of one kind of fault."""

    make: Callable[[], Kind] | None = None
    """Begins and ends it, node by node; None where the nemesis itself does: links, rolling restarts and orders."""
    shapes: tuple[str, ...] = ()
    """Variants that a schedule draws from. Shapes of cuts depend on the number of nodes (`network_faults`)."""
    nodes_min: int = 1
    """Brokers that a cluster needs for it."""
    victims_max: int | None = None
    """Nodes that one fault hits; None: any number."""
    beneath: Literal["disk", "clock"] | None = None
    """Part beneath a broker that has to be replaced before its start."""
    is_down: bool = False
    """Its victims are down for a while, and are started at the end."""
    always_starts: bool = False
    """Its end starts a process that another fault ended: the two never meet on one node."""
    is_slow_to_ask: bool = False
    """Whether the cluster's state is not queried during the fault, because the answer would delay all other faults."""
    marks: tuple[str, ...] = ()
    """Words of which the proof of a fault on links contains at least one."""
    explains: frozenset[str] = frozenset()
    """Errors that clients may get because of this kind alone."""


FACTS: Final[dict[FaultKind, KindFacts]] = {
    "kill": KindFacts(Kill, is_down=True),
    "power": KindFacts(Power, beneath="disk", is_down=True),
    "pause": KindFacts(Pause, is_slow_to_ask=True),
    "stall": KindFacts(Stall, beneath="disk", is_slow_to_ask=True),
    "cut": KindFacts(nodes_min=2, is_slow_to_ask=True, marks=("dropped",)),
    "packet": KindFacts(
        shapes=tuple(PACKET_CONDITIONS),
        nodes_min=2,
        is_slow_to_ask=True,
        marks=("delayed", "lost", "duplicated", "overtaken"),
    ),
    "clock": KindFacts(Clock, shapes=("jump", "strobe", "drift"), beneath="clock"),
    "damage": KindFacts(
        Damage,
        shapes=("flip", "truncate", "delete", "stale", "wipe"),
        nodes_min=3,  # with fewer no majority still has what was damaged
        victims_max=1,
        is_down=True,
        always_starts=True,
        explains=frozenset(("LogDamaged", "CorruptBatch", "50002")),  # refused until it is repaired
    ),
    "full": KindFacts(Full, beneath="disk", explains=frozenset(("StorageFull", "50701"))),
    "sync": KindFacts(Sync, shapes=("slow", "one fails", "all fail"), beneath="disk", is_down=True, always_starts=True),
    "roll": KindFacts(is_down=True),
    "members": KindFacts(nodes_min=2),
}
