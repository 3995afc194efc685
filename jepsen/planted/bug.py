"""Description of a planted bug."""

from collections.abc import Callable
from typing import NamedTuple


class PlantedBug(NamedTuple):
    """Planted bug; `plant` changes the product's code in this process, and the change cannot be undone."""

    name: str
    breaks: str
    """Effect of the bug and its possible consequence."""
    plant: Callable[[], None]
    properties: tuple[str, ...]
    """Properties of which any one is expected to detect the bug."""
    found_within: int
    """Number of seeds, from 1 on, that are enough to detect the bug; the last of them detected it when measured."""
    level: str = "driver"
    """Level of the simulation that detects it (`jepsen.simulation.campaign.LEVELS`)."""
    features: tuple[str, ...] = ()
    """Arguments of the level's function that are true, such as `early_changes`."""
