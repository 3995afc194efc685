"""Numbered scenarios: failures of comparable systems, repeated on real brokers from a script.

`catalogue.SCENARIOS` has them all; `python -m jepsen suite` plays them. A script strikes through a `Stage` and says
what it expects beside the findings of the checkers.
"""
