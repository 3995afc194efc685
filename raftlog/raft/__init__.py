"""Raft without I/O: one core per replica, messages and ticks in, a `Ready` out.

A driver (`raftlog.runtime`, a simulator or a test) owns the stored log and runs this loop for each replica:

    core = RaftCore(me, settings, random, log, restart)
    core.propose(…) · read_index(…) · transfer_leadership(…)   requests of clients
    core.step(message) · core.tick()                           messages of other replicas, time
    ready = core.ready()                                       None when nothing is to be done
    1. apply `ready.cut_to` and `ready.entries` to the stored log, before the next call of the core
    2. begin the sync of hard state, cut and entries
    3. send `ready.messages_now`, apply `ready.apply`, answer `ready.reads`
    4. when the sync is done: send `ready.messages_once_durable`, then
       core.advance(durable=ready.number, applied=…)

`raftlog.raft.ready` describes each field; the next Ready may be taken before step 4. All calls come from one thread.
The package imports only `raftlog.types`: no asyncio, socket, file, clock or global random, so the same inputs always
give the same outputs."""

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
