"""Planted bugs: bugs of comparable systems, put into the product from outside, which tests must detect.

A bug is a function that changes the product's code in a process of its own (`voting_bugs`, `replication_bugs`, …);
never a flag in product code. `hunt` plants one and runs seeds, in an interpreter without assertions, so that a property
observed from outside detects it. `python -m jepsen.planted` hunts them all.
"""

from jepsen.planted.bug import PlantedBug
from jepsen.planted.registry import BUGS

__all__ = ["BUGS", "PlantedBug"]
