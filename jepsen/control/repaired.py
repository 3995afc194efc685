"""Variants of the library with one cause of its losses removed; used only on request.

- `SyncedJournal` with `SyncingTransport`: a node's writes are durable before a message leaves it, so before its vote or
  its answer counts. (Raft thesis, section 3.8.)
- `CutOnConflictNode`: an entry is cut off only if the message has an entry of another term at its index, and only
  entries that the message covers can become committed. (Raft thesis, figure 3.1, AppendEntries steps 3 to 5.) It also
  finds the index at which two logs diverge, which the library fails to find when more than one message is missing: its
  leader steps back by one for the first message that is refused, and forward again for all that follow it."""

import os
from pathlib import Path
from typing import Any

from pysyncobj import SyncObj
from pysyncobj.journal import FileJournal
from pysyncobj.transport import TCPTransport


class SyncedJournal(FileJournal):  # type: ignore[misc]  # the library has no annotations
    """Journal whose `sync` makes everything durable that was written since the last call."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._is_dirty = True
        super().__init__(path)

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Append an entry, which the next `sync` makes durable."""
        self._is_dirty = True
        super().add(command, idx, term)

    def clear(self) -> None:
        """Remove all entries; the next `sync` makes this durable."""
        self._is_dirty = True
        super().clear()

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803 - the library's name
        """Cut the log; the next `sync` makes this durable."""
        self._is_dirty = True
        super().deleteEntriesFrom(entryFrom)

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:  # noqa: N802, N803 - the library's name
        """Store term and vote, which the next `sync` makes durable."""
        self._is_dirty = True
        super().setCurrentTerm(term, votedForNodeId)

    def sync(self) -> None:
        """Sync the log, term and vote, and their names. On Linux a sync of the file covers writes through a mapping."""
        if self._is_dirty:
            for path in (self._path, self._path.with_name(f"{self._path.name}.meta"), self._path.parent):
                if path.exists():
                    _sync(path)
            self._is_dirty = False


class SyncingTransport(TCPTransport):  # type: ignore[misc]  # the library has no annotations
    """Transport that syncs the journal before it sends a message."""

    def __init__(self, sync_obj: SyncObj, self_node: Any, other_nodes: Any) -> None:
        super().__init__(sync_obj, self_node, other_nodes)
        self._of = sync_obj

    def send(self, node: Any, message: dict[str, Any]) -> bool:
        """Sync the journal, then send the message; return whether it was sent."""
        self._of._SyncObj__raftLog.sync()
        return bool(super().send(node, message))


class DeferredCutJournal(FileJournal):  # type: ignore[misc]  # the library has no annotations
    """Journal that cuts its log only at the first entry that conflicts.

    Call `settle` after each message, to drop a requested cut without a conflict."""

    def __init__(self, path: str) -> None:
        self._cut_from: int | None = None
        super().__init__(path)

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803 - the library's name
        """Remember from where to cut; nothing is deleted yet."""
        self._cut_from = entryFrom

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Append an entry.

        If a cut is pending, skip an entry that the journal already has at this index, or cut there."""
        at = self._cut_from
        if at is not None and at < len(self):
            if self[at][1:] == (idx, term):
                self._cut_from = at + 1
                return
            super().deleteEntriesFrom(at)
        self._cut_from = None
        super().add(command, idx, term)

    def settle(self) -> None:
        """Drop the requested cut, if it was not made: the entries stay in the log."""
        self._cut_from = None


class CutOnConflictNode(SyncObj):  # type: ignore[misc]  # the library has no annotations
    """Node that cuts entries only at a conflict; its journal is a `DeferredCutJournal`."""

    _divergence_at: int | None = None
    """Index at which the leader should begin, after an append that did not match here."""

    def _SyncObj__onMessageReceived(self, node: Any, message: dict[str, Any]) -> None:  # noqa: N802 - the library's name
        """Process a message, with its commit index lowered to the last entry that the message proves.

        Then settle the cut."""
        if message["type"] == "append_entries" and "prevLogIdx" in message:
            entries = message.get("entries") or ()
            confirmed = entries[-1][1] if entries else message["prevLogIdx"]
            message = {**message, "commit_index": min(message["commit_index"], confirmed)}
        super()._SyncObj__onMessageReceived(node, message)
        self._SyncObj__raftLog.settle()

    def _SyncObj__sendNextNodeIdx(  # noqa: N802 - the library's name
        self,
        node: Any,
        reset: bool = False,
        nextNodeIdx: int | None = None,  # noqa: N803 - the library's name
        success: bool = False,
    ) -> None:
        """Answer an append. After a refusal, name the index at which the term of the conflicting entry begins."""
        begin = nextNodeIdx
        if success:
            self._divergence_at = None
        elif reset:
            if nextNodeIdx is not None:
                self._divergence_at = self._term_begins_at(nextNodeIdx)
            begin = self._divergence_at
        super()._SyncObj__sendNextNodeIdx(node, reset=reset, nextNodeIdx=begin, success=success)

    def _term_begins_at(self, index: int) -> int:
        """Return the first index of the entry's term; all logs share the very first entry."""
        entries = self._SyncObj__raftLog
        first, at = entries[0][1], index - entries[0][1]
        while at > 1 and entries[at - 1][2] == entries[at][2]:
            at -= 1
        return int(first + max(at, 1))


def _sync(path: Path) -> None:
    """Sync a file or a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
