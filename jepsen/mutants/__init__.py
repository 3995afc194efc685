"""Mutants: small changes of the product, each of which a test must detect.

    python -m jepsen.mutants [NAME …]       apply each in a copy of the tree, run its tests, and report survivors

A mutant that survives shows code that nothing guards: it gets a test, or a proof that it changes nothing. Planted bugs
(`jepsen.planted`) are others: they must be found from outside, by properties of histories.
"""

from jepsen.mutants.mutant import Mutant, NotApplicable

__all__ = ["Mutant", "NotApplicable"]
