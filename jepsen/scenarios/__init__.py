"""Numbered scenarios: failures of comparable systems, repeated on real brokers from a script.

`catalogue.SCENARIOS` has them all; `python -m jepsen suite` plays them. A script injects faults through a `Stage` and
states its expectations beside the findings of the checkers.
"""
