"""Mutants: one-line changes of the product, each of which a test has to notice.

    python -m jepsen.mutants [NAME …]       apply each in a copy of the tree, run the tests that should notice, say what
                                            survived

A mutant that survives shows code that nothing guards: it gets a test, or a proof that it changes nothing. Planted bugs
(`jepsen.planted`) are others: they must be found from outside, by properties of histories.
"""

from jepsen.mutants.mutant import Mutant, NotApplicable

__all__ = ["Mutant", "NotApplicable"]
