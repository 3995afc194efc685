"""Negative control: pysyncobj's replicated list as a log, under the same faults and checkers as raftlog.

The library is known to lose acknowledged writes. If the harness did not detect these losses, it would prove nothing
about other systems. With the cause of a loss removed (`repaired`) the same run must pass; so the findings have this
cause, and do not come from the harness. `python -m jepsen.control` runs the cases one after the other."""
