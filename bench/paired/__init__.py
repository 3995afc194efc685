"""Paired measurements: two checkouts of raftlog on one machine, in alternating runs (`python -m bench --against PATH`).

    trees → brokers → loads → rounds (A B B A, and A A A A) → ratios → table

Brokers run the code of their own tree. The load is this checkout's and speaks HTTP only, so the other tree may be
older.
"""

from bench.paired.measures import MEASURES

__all__ = ["MEASURES"]
