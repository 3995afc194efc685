"""Runner of tests: starts a system, a nemesis and clients; ends all faults, reads all records, checks, and reports.

`command` is `python -m jepsen test`; `trial` is one test from start to verdict. The system is a cluster of
`raftlog.testing` (`cluster`), or any other `system.System`, such as the fakes in the tests.
"""
