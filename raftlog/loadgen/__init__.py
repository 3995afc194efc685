"""Load generator for a running cluster: starts operations at a fixed rate or as fast as they complete.

    LoadPlan → LoadRun(plan, wire, work) → Result    `wire` carries requests and has the clock, `work` makes the
    requests

It reaches brokers only over HTTP, as any client does. It is one thread on plain sockets, since it often shares a
machine's cores with the brokers and must not become the bottleneck. Used by `raftlog bench` and `bench/`."""

from raftlog.loadgen.broker_traffic import BrokerTraffic, scrape
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
    "BrokerTraffic",
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
