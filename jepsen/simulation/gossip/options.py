"""Options of one run of gossip; drawn from its seed unless the command gives the number of members and the loss."""

from dataclasses import dataclass, fields
from enum import Enum
from random import Random
from typing import Final

from jepsen.simulation.options import format_option, generator

CONTRACT_S: Final = 600.0
MEMBERS: Final = (2, 3, 3, 4, 5, 5, 7, 10, 20, 40)


class GossipFault(Enum):
    """Kinds of faults; their effects are in `nemesis`."""

    CRASH = "crash"
    LEAVE = "leave"
    PAUSE = "pause"
    STALL = "stall"
    HALVES = "halves"
    ISOLATED = "isolated member"
    ONE_WAY = "one-way cut"
    LOSSY = "heavy loss"
    WIPE = "wiped disk"
    DESCRIBE = "new description"


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipOptions:
    """Options of one run of simulated gossip. Times in seconds."""

    seed: int
    members: int
    loss: float
    """Share of datagrams that are lost."""
    duplicate: float
    delay_max_s: float
    """Longest delay of a datagram; delays are random, so datagrams overtake each other."""
    description_bytes: int
    is_steady: bool
    """Whether the only faults are `loss`, and occasional crashes, departures and returns of one member.

    Then no other member may ever be declared dead, and all members must detect each event within ten protocol
    periods."""
    faults: tuple[GossipFault, ...]
    safety_s: float
    settling_s: float
    """Time, in seconds after healing, within which the views of all members agree."""

    def __str__(self) -> str:
        """Return one option per line."""
        return "\n".join(f"{field.name} = {format_option(getattr(self, field.name))}" for field in fields(self))


def draw(seed: int) -> GossipOptions:
    """Return the options of a seed."""
    random = generator(seed, "gossip options")
    members = random.choice(MEMBERS)
    if random.random() < 0.2:
        return draw_steady(seed, members=members, loss=random.choice((0.0, 0.05)), safety_s=200.0)
    share = random.choice((0.2, 0.4, 0.8))
    return GossipOptions(
        seed=seed,
        members=members,
        loss=random.choice((0.0, 0.0, 0.05)),
        duplicate=random.choice((0.0, 0.05)),
        delay_max_s=_draw_delay(random),
        description_bytes=random.choice((0, 120, 400)),
        is_steady=False,
        faults=tuple(fault for fault in GossipFault if random.random() < share),
        safety_s=90.0,
        settling_s=60.0,
    )


def draw_steady(seed: int, *, members: int, loss: float, safety_s: float = CONTRACT_S) -> GossipOptions:
    """Return options of a steady run: datagrams are lost, and at times a member crashes or leaves."""
    random = generator(seed, "gossip options", members, loss)
    return GossipOptions(
        seed=seed,
        members=members,
        loss=loss,
        duplicate=0.0,
        delay_max_s=_draw_delay(random),
        description_bytes=120,
        is_steady=True,
        faults=(),
        safety_s=safety_s,
        settling_s=20.0,
    )


def _draw_delay(random: Random) -> float:
    """Return a random value for the longest delay of a datagram, in seconds."""
    return random.choice((0.001, 0.005, 0.02))
