"""Runner of tests: starts a system, a nemesis and clients; heals, drains, checks, and reports the result.

`command` is `python -m jepsen test`; `trial` is one test from start to verdict. The system is a cluster of
`raftlog.testing` (`cluster`), or any other `system.System`, as the fakes in the tests.
"""
