"""Committed entries of a replica's log, read for state machines such as the controller's."""

from typing import NamedTuple

from raftlog.errors import EntriesTrimmed
from raftlog.records import ControlKind, read_control
from raftlog.runtime.log.control_entries import is_control
from raftlog.runtime.log.group_log import GroupLog
from raftlog.types import Buffer, Index, Term


class CommittedEntry(NamedTuple):
    """Committed entry as stored; `kind` is None for client data, whose records are in `batch`."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    term: Term
    kind: ControlKind | None
    payload: bytes
    """Payload of a control entry."""
    batch: Buffer


def read_committed(log: GroupLog, first: Index, last: Index, max_bytes: int) -> list[CommittedEntry]:
    """Return entries `first` to `last`, as many as fit into `max_bytes`, but at least one if there is any.

    Raises `EntriesTrimmed` when the log begins after `first`, `CorruptBatch`, `InvalidBatch`."""
    if first <= log.boundary.index:
        path = log.segments.path
        raise EntriesTrimmed(f"{path}: entry {first} was trimmed away; the log begins after entry {log.boundary}")
    if first > last:
        return []
    found = []
    for index, term, _, _, batch, _ in log.entries(first, last - first + 1, max_bytes):
        kind, payload = read_control(batch) if is_control(batch) else (None, b"")
        found.append(CommittedEntry(index, term, kind, payload, batch))
    return found
