"""What is known of a planted bug."""

from collections.abc import Callable
from typing import NamedTuple


class PlantedBug(NamedTuple):
    """`plant` changes the product in this process, for good."""

    name: str
    breaks: str
    """What it does, and what could go wrong by it."""
    plant: Callable[[], None]
    properties: tuple[str, ...]
    """What is expected to find it: any of these properties."""
    found_within: int
    """So many seeds from 1 on are enough: the last of them was the first to find it when that was measured."""
    level: str = "driver"
    """What has to be simulated to find it (`jepsen.simulation.campaign.LEVELS`)."""
