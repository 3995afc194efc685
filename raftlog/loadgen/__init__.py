"""Load on a running cluster, offered at a fixed rate or as fast as it is taken, and what came of it.

    plan → Run(plan, wire, work) → Result        `wire` carries requests and has the clock, `work` says what they are

It reaches brokers only over HTTP, as any client does. One thread on plain sockets: it shares a machine's cores with the
brokers more often than not, and must not be what is measured. Who may come in: `raftlog bench`, and `bench/`.
"""

from raftlog.loadgen.between import Between, scrape
from raftlog.loadgen.mix import KINDS, Mix
from raftlog.loadgen.plan import LoadMode, LoadPlan, Targeting
from raftlog.loadgen.preparing import LoadTarget, prepare
from raftlog.loadgen.result import Result
from raftlog.loadgen.run import LoadProgress, LoadRun
from raftlog.loadgen.session import run_session
from raftlog.loadgen.sockets import SocketWire
from raftlog.loadgen.work import Work

__all__ = [
    "KINDS",
    "Between",
    "LoadMode",
    "LoadPlan",
    "LoadProgress",
    "LoadRun",
    "LoadTarget",
    "Mix",
    "Result",
    "SocketWire",
    "Targeting",
    "Work",
    "prepare",
    "run_session",
    "scrape",
]
