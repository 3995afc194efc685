"""Mutants: small changes of the product, each of which a test must detect.

    python -m jepsen.mutants [NAME …]       apply each in a copy of the tree, run its tests, and report survivors

A mutant that survives shows code that no test checks: it needs a test, or a proof that it changes no behaviour. Planted
bugs (`jepsen.planted`), in contrast, must be detected from outside, by properties of histories.
"""

from jepsen.mutants.mutant import Mutant, NotApplicable

__all__ = ["Mutant", "NotApplicable"]
