"""Tests of raftlog: unit and property tests beside integration tests on real processes, sockets and disks."""
