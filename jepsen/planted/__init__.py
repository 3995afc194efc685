"""Bugs that others made first, put into the product from outside, each of which the simulation must condemn.

A bug is a function that changes the product's code in a process of its own (`voting`, `replicating`, `membership`,
`storing`, `clustering`, `healing`, `elasticity`, `gossiping`); never a flag in product code. `hunt` plants one and runs
seeds, in an interpreter without assertions, so that what finds it is a property seen from outside. `python -m
jepsen.planted` hunts them all.
"""

from jepsen.planted.bug import PlantedBug
from jepsen.planted.registry import BUGS

__all__ = ["BUGS", "PlantedBug"]
