"""Fault injection: deterministic simulation of whole clusters in one process, and faults on real processes.

Not installed with raftlog; run from a clone.
"""
