"""Checkers of histories: pure code shared by the simulator, tests of real clusters, and users with recorded histories.

`history` is the one format, `json_lines` reads and writes it, `judge_history` checks a whole history, and `Panel`
checks
entry by entry. Comparing replicas (`compare_streams`, `ReplicaComparison`) needs no history. This package imports only
`raftlog.types` and `raftlog.errors`."""

from jepsen.checkers.going_back import NeverBack
from jepsen.checkers.history import (
    Assign,
    Fetched,
    GroupOffsets,
    Handle,
    ListOffsets,
    Membership,
    Nemesis,
    OffsetRange,
    Op,
    Poll,
    Recorder,
    Register,
    Send,
    Sequenced,
    Subscribe,
    Topic,
    Trim,
)
from jepsen.checkers.json_lines import read_entries, read_lines, write_lines
from jepsen.checkers.judge import Anomaly, AnomalyKind
from jepsen.checkers.panel import Panel, Rules, Verdict, judge_history, judge_with
from jepsen.checkers.replicas import ReplicaComparison, compare_streams

__all__ = [
    "Anomaly",
    "AnomalyKind",
    "Assign",
    "Fetched",
    "GroupOffsets",
    "Handle",
    "ListOffsets",
    "Membership",
    "Nemesis",
    "NeverBack",
    "OffsetRange",
    "Op",
    "Panel",
    "Poll",
    "Recorder",
    "Register",
    "ReplicaComparison",
    "Rules",
    "Send",
    "Sequenced",
    "Subscribe",
    "Topic",
    "Trim",
    "Verdict",
    "compare_streams",
    "judge_history",
    "judge_with",
    "read_entries",
    "read_lines",
    "write_lines",
]
