"""Checkers of histories: pure code shared by the simulator, tests of real clusters, and users with recorded histories.

`history` is the one format, `json_lines` reads and writes it, `check_history` checks a whole history, and
`HistoryChecker` checks entry by entry. Comparing replicas (`compare_streams`, `ReplicaComparison`) needs no history.
This package imports only `raftlog.types` and `raftlog.errors`."""

from jepsen.checkers.checker import Anomaly, AnomalyKind
from jepsen.checkers.history import (
    Append,
    Assign,
    Consumed,
    Fetched,
    GroupOffsets,
    Handle,
    ListOffsets,
    Membership,
    Nemesis,
    OffsetRange,
    OffsetsRead,
    Op,
    Poll,
    Recorder,
    Register,
    Scan,
    Send,
    Sequenced,
    Subscribe,
    Topic,
    Transaction,
    Trim,
)
from jepsen.checkers.history_checker import HistoryChecker, Rules, Verdict, check_history, check_with
from jepsen.checkers.json_lines import read_entries, read_lines, write_lines
from jepsen.checkers.monotonicity import MonotonicCheck
from jepsen.checkers.replicas import ReplicaComparison, compare_streams

__all__ = [
    "Anomaly",
    "AnomalyKind",
    "Append",
    "Assign",
    "Consumed",
    "Fetched",
    "GroupOffsets",
    "Handle",
    "HistoryChecker",
    "ListOffsets",
    "Membership",
    "MonotonicCheck",
    "Nemesis",
    "OffsetRange",
    "OffsetsRead",
    "Op",
    "Poll",
    "Recorder",
    "Register",
    "ReplicaComparison",
    "Rules",
    "Scan",
    "Send",
    "Sequenced",
    "Subscribe",
    "Topic",
    "Transaction",
    "Trim",
    "Verdict",
    "check_history",
    "check_with",
    "compare_streams",
    "read_entries",
    "read_lines",
    "write_lines",
]
