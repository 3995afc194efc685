"""Negative control: pysyncobj's replicated list as a log, under the same faults and checkers as raftlog.

It is known to lose acknowledged writes, so a harness that finds nothing here proves nothing elsewhere; and with the
cause of a loss removed (`repaired`) the same run must pass, so it is the cause that is found and not the harness.
`python -m jepsen.control` runs the cases one after the other.
"""
