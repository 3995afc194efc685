"""Runs a test: a system, a nemesis, clients; then heals, drains, checks, and reports the result.

`command` is `python -m jepsen test`; `trial` is one test from start to verdict. The system is a cluster of
`raftlog.testing` (`cluster`), or whatever else has the members of `system.System`, as the fakes in the tests do.
"""
