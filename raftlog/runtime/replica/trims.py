"""Trims of a replica's log: committed trims move the log start, then closed segments below it are deleted.

    scheduled → journaled (`TrimEntry`) → durable: the log start moves → files below it are deleted
    log start ≤ `start`: its position once all of that is done
    committed compaction marks → the host compacts the log below them

The journal has `trim` before any hint at a commit after the trim entry, so after a restart either the log start has
moved or the entry is delivered again. A trim that has to wait (another log is being installed, no room in the journal)
stays scheduled. Files that must stay for a while (the replica is quarantined, a cut is under way) are left over below
the log start; they are deleted in a later turn, or with a restart. No file stays for replicas that copy the log: they
continue with the files that are left.

Trims and marks are noted when they are appended, so deliveries need no search. Those that were in the files at a
restart are searched for once, among the entries that were not known to be committed. Owned by a group."""

from typing import Generic, Protocol, TypeVar

from raftlog.errors import CorruptBatch, DescriptorsExhausted, Unavailable
from raftlog.records import ControlKind, read_control
from raftlog.runtime.log.control_entries import CompactionMark, TrimEntry, decode_compacted_to, decode_trim, is_control
from raftlog.runtime.log.group_log import NO_MARK, GroupLog
from raftlog.runtime.log.leftovers import end_of_leftovers, has_leftovers, has_roll_at
from raftlog.runtime.replica.host import Host
from raftlog.types import Index, Offset

_READ_BYTES = 1 << 20


class TrimTarget(Protocol):
    """Replica that owns a `Trims`."""

    log: GroupLog
    applied_index: Index
    high_watermark: Offset
    damage: CorruptBatch | None
    trim_to: Offset | None
    is_closed: bool
    is_frozen: bool

    @property
    def log_start_offset(self) -> Offset:
        """Offset below which no records are served."""
        ...

    def note_damage(self, error: CorruptBatch) -> None:
        """Quarantine the group."""
        ...


G = TypeVar("G", bound=TrimTarget)


class Trims(Generic[G]):
    """Execution of committed trim entries at one replica: journal, then delete segments."""

    def __init__(self, group: G, host: Host[G]) -> None:
        """Follow the trim and compaction entries of the group's log."""
        self._group, self._host = group, host
        self._scheduled = Offset(0)
        """Offset of a committed trim that is not journaled yet; 0: none."""
        self._searched_to = group.applied_index
        """Index up to which the files were searched for trim entries that existed when the log was opened."""
        self._is_repair = False
        """Whether the newest trim removes damaged entries that no replica can supply."""
        self._is_mark_unseen = True
        """Whether the log may be new here, with a mark in its rolls for which no compaction was scheduled yet."""
        self.is_waiting = True
        """Whether `advance` may have something to do in the next turn."""

    @property
    def start(self) -> Offset:
        """Log start offset after all committed trims, durable here or not: another leader may have announced them."""
        group = self._group
        return max(group.log_start_offset, group.trim_to or Offset(0), self._scheduled)

    def advance(self) -> None:
        """Apply committed trims and marks, and delete files, as far as possible now. Raises `FormatError`."""
        group, log = self._group, self._group.log
        if group.is_closed or group.is_frozen:
            return
        self._search_files()
        if self._is_mark_unseen:
            self._is_mark_unseen = False
            if log.mark != NO_MARK:
                self._host.compact(group)
        while log.noted and log.noted[0][0] <= group.applied_index:
            self._apply_committed(log.noted.popleft()[1])
        if self._scheduled:
            self._journal()
        self._drop(although_damaged=False)

    def _apply_committed(self, entry: TrimEntry | CompactionMark) -> None:
        """Apply a committed trim or compaction mark."""
        if isinstance(entry, TrimEntry):
            self.schedule(entry.log_start_offset)
        else:
            self._group.log.raise_mark(entry)
            self._host.compact(self._group)

    def schedule(self, offset: Offset) -> None:
        """Schedule a trim to `offset`."""
        self._scheduled = max(self._scheduled, offset)
        self.is_waiting = True

    def find_trimmable_offset(self, offset: int) -> Offset:
        """Return `offset` if a committed roll or record is there, otherwise the offset before it.

        Only a roll may follow a log that was trimmed completely: if that roll were cut, no part of the log would be
        left."""
        group = self._group
        if offset < group.high_watermark or has_roll_at(group.log.segments, offset, group.applied_index):
            return Offset(offset)
        return Offset(max(0, offset - 1))

    def trim_damaged(self, offset: Offset) -> bool:
        """Delete damaged entries below `offset` if possible, and return whether it was.

        See `PartitionReplica.trim_damaged`."""
        group, log = self._group, self._group.log
        if (
            group.trim_to is not None
            or log.is_cut_waiting
            or not has_roll_at(log.segments, offset, group.applied_index)
        ):
            return False
        if offset <= group.log_start_offset:
            self._drop(although_damaged=True)
        else:
            self._is_repair = True
            self._host.trim(group, offset)
        return True

    def settle(self, offset: Offset) -> None:
        """Move the log start to a trim that is durable."""
        group = self._group
        group.log.raise_log_start(offset)
        is_repair = False
        if offset == group.trim_to:
            group.trim_to = None
            is_repair, self._is_repair = self._is_repair, False
        self._drop(although_damaged=is_repair)

    def restart_at(self, applied: Index) -> None:
        """Continue with a log that was fetched, whose start follows every trim up to `applied`."""
        self._searched_to = applied
        self._is_mark_unseen = self.is_waiting = True

    def _search_files(self) -> None:
        """Search the files for committed trims and marks from before the restart.

        The search stops at a damaged entry until it is repaired; a later trim makes up for one that is lost this way.
        """
        group, log = self._group, self._group.log
        last = min(group.applied_index, Index(log.noted_from - 1))
        while self._searched_to < last and group.damage is None:
            first = Index(max(self._searched_to, log.boundary.index) + 1)
            try:
                entries = log.entries(first, last - first + 1, _READ_BYTES) if first <= last else ()
            except CorruptBatch as error:
                group.note_damage(error)
                return
            except DescriptorsExhausted:
                return  # the next turn retries
            for entry in entries:
                if is_control(entry.payload):
                    kind, payload = read_control(entry.payload)
                    if kind is ControlKind.TRIM:
                        self._apply_committed(decode_trim(payload))
                    elif kind is ControlKind.COMPACTED_TO:
                        self._apply_committed(decode_compacted_to(payload))
            self._searched_to = entries[-1].index if entries else last

    def _journal(self) -> None:
        """Journal the scheduled trim if it raises the log start; keep it scheduled if the journal has no room."""
        group = self._group
        if self._scheduled > max(group.log_start_offset, group.trim_to or 0):
            before = group.trim_to
            try:
                self._host.trim(group, self._scheduled)
            except Unavailable:  # no room in the journal: retried with the next turn
                group.trim_to = before
                return
        self._scheduled = Offset(0)

    def _drop(self, *, although_damaged: bool) -> None:
        """Delete segments below the log start, unless the replica is damaged and `although_damaged` is false."""
        group, log = self._group, self._group.log
        end = end_of_leftovers(log.segments, group.applied_index)
        if end is not None and self._may_drop(although_damaged):
            self._host.note_changed(group)
            try:
                log.trim(end)
            except CorruptBatch as error:
                group.note_damage(error)
            except DescriptorsExhausted:
                pass  # left over, and retried with the next turn
        self.is_waiting = bool(self._scheduled) or self._searched_to < log.noted_from - 1 or has_leftovers(log.segments)

    def _may_drop(self, although_damaged: bool) -> bool:
        """Return whether files and log agree, and no change of the files is under way."""
        group = self._group
        is_sound = group.damage is None or although_damaged
        return is_sound and not group.log.is_cut_waiting and not group.is_frozen
