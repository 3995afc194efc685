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
    """Constructor of the injector on nodes; None: the nemesis injects it (links, rolling restarts, members)."""
    shapes: tuple[str, ...] = ()
    """Variants that a schedule draws from. Shapes of cuts depend on the number of nodes (`network_faults`)."""
    nodes_min: int = 1
    """Smallest number of brokers in a cluster with this fault."""
    victims_max: int | None = None
    """Largest number of nodes that one fault hits; None: any number."""
    beneath: Literal["disk", "clock"] | None = None
    """Part beneath a broker that has to be replaced before its start."""
    is_down: bool = False
    """Whether its victims are down during the fault, and are started at its end."""
    always_starts: bool = False
    """Whether its end starts its node even if another fault stopped it; so the two never hit one node together."""
    is_slow_to_ask: bool = False
    """Whether the cluster's state is not queried during the fault, because the answer would delay all other faults."""
    marks: tuple[str, ...] = ()
    """Words; the proof that a fault on links had an effect contains at least one of them."""
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
