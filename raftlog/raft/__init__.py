"""Raft without I/O: one core per replica, messages and ticks in, a frozen `Ready` out.

Who may come in: drivers (`raftlog.runtime`), simulators and tests. The room imports nothing but `raftlog.types`; no
asyncio, sockets, files, clock or global random is inside, so the same inputs always give the same outputs.
"""

from raftlog.raft.configuration import Configuration, ConfigurationChange, ReplicaId
from raftlog.raft.core import RaftCore
from raftlog.raft.entry import ControlPayloads, Entry, EntryId, EntryKind, Proposal
from raftlog.raft.log_view import LogView
from raftlog.raft.messages import Message
from raftlog.raft.ready import (
    Accepted,
    HardState,
    Installed,
    Ready,
    RefusalReason,
    RefusedProposal,
    Restart,
    Role,
    Status,
)
from raftlog.raft.settings import RaftSettings

__all__ = [
    "Accepted",
    "Configuration",
    "ConfigurationChange",
    "ControlPayloads",
    "Entry",
    "EntryId",
    "EntryKind",
    "HardState",
    "Installed",
    "LogView",
    "Message",
    "Proposal",
    "RaftCore",
    "RaftSettings",
    "Ready",
    "RefusalReason",
    "RefusedProposal",
    "ReplicaId",
    "Restart",
    "Role",
    "Status",
]
