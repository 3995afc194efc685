"""The workload `log`: producers, readers, listers and committers against random brokers, over HTTP.

`python -m jepsen.workloads.log CONFIG` is one client process (`client`); `drain` reads everything back at the end.
Every operation goes into a history in the format of `raftlog.checkers`. Outcomes are what `raftlog.client` makes of the
answers: ok, fail (it definitely did not happen), info (nobody knows). The service is reached through HTTP alone.
"""
