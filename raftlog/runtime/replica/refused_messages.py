"""Messages that no correct replica sends: each is reported by an event, and never ends the process.

    a contradiction by a member of the group     this replica stops until the process restarts: one of the two has lost
                                                 promised state, and it is unknown which one
    a contradiction by any other replica         dropped
    a term near the last one                     dropped

A replica that stopped keeps its files and its promises on disk; it does not vote, acknowledge, lead or send entries.
Called by the driver."""

import logging

from raftlog.events import event
from raftlog.raft import Message
from raftlog.raft.message_errors import Contradiction, RefusedMessage, TermRefused
from raftlog.runtime.replica.partition_replica import PartitionReplica

_logger = logging.getLogger(__name__)


def handle_refused(group: PartitionReplica, refused: RefusedMessage) -> None:
    """Log the event for a message that the core refused; stop this replica if a member of the group contradicts it."""
    offending = refused.offending
    if isinstance(refused, TermRefused):
        event(_logger, "term_refused", group=group.name, message_type=type(offending).__name__, why=str(refused))
        return
    known = refused.known if isinstance(refused, Contradiction) else None
    by = describe(known) if known is not None else "this replica's own state"
    is_member = group.core.configuration.has_member(offending.sender)
    name = "replica_stopped" if is_member else "contradiction_dropped"
    event(_logger, name, group=group.name, why=str(refused), contradicts=by, offending=describe(offending))
    if is_member:
        group.stop(f"{refused} ({describe(offending)} contradicts {by})")


def describe(message: Message) -> str:
    """Return type and fields of a message in one line."""
    fields = zip(message._fields, message, strict=True)
    shown = ", ".join(f"{name}={value}" for name, value in fields if name not in ("to", "entries"))
    return f"{type(message).__name__}({shown})"
