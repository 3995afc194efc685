"""Elasticity of a run's cluster: brokers that join, requests of operators, and crashes meanwhile.

Drawn from the seed by a generator of its own. Half of the runs have none (`NONE`), the others some kinds of requests;
their effects are in `workload.operators`.
"""

from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final


class Order(Enum):
    """Kinds of operators' requests."""

    MOVE = "move"
    RIVALS = "rival moves"
    """Two moves of one partition at once, requested at two brokers."""
    CANCEL = "cancelled move"
    TRANSFER = "transfer"
    """Leadership transfer to any member, up or down, or to one that has just become a voter."""
    MAINTENANCE = "maintenance"
    DECOMMISSION = "decommission"
    """Decommission of a broker that can be spared, sometimes of one that cannot, and its recommission."""
    BALANCE = "balance"
    SETTINGS = "settings"
    ABSENCE = "absence"
    """A broker is away for longer than the cluster waits before it repairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elasticity:
    """Options of one run for changes of the cluster: moves, decommissions, new brokers. Times are in seconds."""

    late_joiners: int
    """Number of brokers that join the cluster later."""
    orders: tuple[Order, ...]
    operators: int
    pause_s: float
    """Average time between two requests of an operator."""
    repair_after_ms: int
    """Time, in milliseconds, that the cluster waits for a broker that is down; -1: for ever."""
    strikes: float
    """Chance of a crash of the controller's leader, or of the broker concerned, during a request."""
    ambushes: float
    """Chance of a strike at a leader when it changes the Raft configuration."""
    returns: float
    """Chance that a removed broker comes back with an empty disk; otherwise it comes back on its old one."""
    quiet_s: float
    """Time at the end of the run in which nothing may change."""


NONE: Final = Elasticity(
    late_joiners=0,
    orders=(),
    operators=0,
    pause_s=1.0,
    repair_after_ms=-1,
    strikes=0.0,
    ambushes=0.0,
    returns=0.0,
    quiet_s=0.0,
)


def draw_elasticity(random: Random, late_joiners_max: int) -> Elasticity:
    """Draw the options for changes of the cluster."""
    if random.random() < 0.5:
        return NONE
    kinds = [order for order in Order if random.random() < random.choice((0.3, 0.6))]
    focus = random.choice(list(Order))
    return Elasticity(
        late_joiners=min(late_joiners_max, random.choice((0, 1, 1, 2))),
        orders=(*kinds, *(focus,) * 3),
        operators=random.choice((1, 1, 2)),
        pause_s=random.choice((0.5, 2.0)),
        repair_after_ms=random.choice((-1, 1_000, 4_000)),
        strikes=random.choice((0.0, 0.3, 0.7)),
        ambushes=random.choice((0.0, 0.1, 0.5)),
        returns=random.choice((0.0, 0.5, 1.0)),
        quiet_s=random.choice((0.0, 0.0, 20.0, 60.0)),
    )
