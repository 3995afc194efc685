"""Elasticity of a run's cluster: brokers that join, orders of operators, and crashes meanwhile.

Drawn from the seed by a generator of its own. Half of the runs have nothing of it (`NONE`), the others some kinds of
orders; what each does is in `workload.operators`.
"""

from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final


class Order(Enum):
    """Kinds of orders."""

    MOVE = "move"
    RIVALS = "rival moves"
    """Two moves of one partition at once, ordered at two brokers."""
    CANCEL = "cancelled move"
    TRANSFER = "transfer"
    """Leadership transfer to any member, dead or alive, or to one that has just got its vote."""
    MAINTENANCE = "maintenance"
    DECOMMISSION = "decommission"
    """Decommission of a broker that can be spared, sometimes of one that cannot, and its recommission."""
    BALANCE = "balance"
    SETTINGS = "settings"
    ABSENCE = "absence"
    """A broker is away for longer than the cluster waits before it repairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elasticity:
    """Options of one run for changes of the cluster. Times are in seconds."""

    latecomers: int
    """Brokers that join the cluster at work."""
    orders: tuple[Order, ...]
    operators: int
    pause_s: float
    """Between two orders of an operator, on average."""
    repair_after_ms: int
    """Time, in milliseconds, that the cluster waits for a broker that is down; -1: for ever."""
    strikes: float
    """Chance that the controller's leader, or the broker concerned, dies while an order is carried out."""
    ambushes: float
    """Chance that a leader that changes the members of its group dies of it."""
    returns: float
    """Chance that a removed broker comes back with an empty disk; otherwise it comes back on its old one."""
    quiet_s: float
    """In the end nothing changes any more for so long."""


NONE: Final = Elasticity(
    latecomers=0,
    orders=(),
    operators=0,
    pause_s=1.0,
    repair_after_ms=-1,
    strikes=0.0,
    ambushes=0.0,
    returns=0.0,
    quiet_s=0.0,
)


def draw_elasticity(random: Random, latecomers_max: int) -> Elasticity:
    """Return the elasticity of a seed."""
    if random.random() < 0.5:
        return NONE
    kinds = [order for order in Order if random.random() < random.choice((0.3, 0.6))]
    focus = random.choice(list(Order))
    return Elasticity(
        latecomers=min(latecomers_max, random.choice((0, 1, 1, 2))),
        orders=(*kinds, *(focus,) * 3),
        operators=random.choice((1, 1, 2)),
        pause_s=random.choice((0.5, 2.0)),
        repair_after_ms=random.choice((-1, 1_000, 4_000)),
        strikes=random.choice((0.0, 0.3, 0.7)),
        ambushes=random.choice((0.0, 0.1, 0.5)),
        returns=random.choice((0.0, 0.5, 1.0)),
        quiet_s=random.choice((0.0, 0.0, 20.0, 60.0)),
    )
