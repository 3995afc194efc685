"""Groups of logs that are copies of each other, and the entries in which they must agree. Pure.

    stop = the lowest commit index of all copies, by their journals
    a copy without a journal counts up to its first damaged entry

A log belongs to the group in its journal, or without a journal to the group in its rolls. A log that is not in the
journal of its data directory (it is being fetched, or was removed) is checked, but not compared. Called by `job`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from raftlog.pipeline.segments.replicas import parse_log_path
from raftlog.pipeline.verification.found_logs import FoundLog, FoundLogs
from raftlog.pipeline.verification.journals import JournaledReplica, JournalRead
from raftlog.pipeline.verification.ranges import Copies, ListedLog


class PartitionCopies(NamedTuple):
    """Copies of one partition, sorted by path; `group_id` is None for a lone log."""

    group_id: UUID | None
    logs: tuple[FoundLog, ...]
    journaled: tuple[JournaledReplica | None, ...]
    """State of each copy in its journal; None without a journal."""
    copies: Copies

    def __str__(self) -> str:
        return f"{self.logs[0].topic}/{self.logs[0].partition}"

    @property
    def name(self) -> tuple[str, int]:
        return self.logs[0].topic, self.logs[0].partition

    @property
    def first(self) -> int:
        """First entry that all copies have."""
        return max((log.segments[0].base_index for log in self.copies.logs if log.segments), default=1)

    @property
    def is_compacted(self) -> bool:
        """Whether compaction changed any entry that all copies have."""
        return len(self.logs) > 1 and self.copies.uncompacted_from > self.first

    @property
    def voters(self) -> int:
        """Number of copies that should exist, from the newest roll."""
        newest = (log.segments[-1] for log in self.copies.logs if log.segments)
        return max(((each.base_index, each.voters) for each in newest), default=(0, 0))[1]

    @property
    def is_only_journaled(self) -> bool:
        """Whether some of the entries to compare exist only in a journal."""
        stop = self.copies.stop
        return stop is not None and any(replica is not None and replica.held_to < stop for replica in self.journaled)

    @property
    def has_doubtful_rolls(self) -> bool:
        """Whether files of copies cannot be matched by name: a roll is unreadable, or base indexes differ."""
        begins: dict[int, int] = {}
        for log in self.copies.logs:
            for segment in log.segments:
                is_blank = segment.file.log_bytes == 0
                if not is_blank and begins.setdefault(segment.file.base, segment.base_index) != segment.base_index:
                    return True
                if not is_blank and not segment.has_roll:
                    return True
        return False


def group_copies(
    found: FoundLogs, journals: Iterable[JournalRead], listed: Mapping[str, ListedLog]
) -> list[PartitionCopies]:
    """Group all logs by partition, sorted by topic and partition."""
    journaled = {each.path: each for journal in journals for each in journal.replicas}
    members: dict[UUID, list[FoundLog]] = {}
    alone = []
    for log in found.logs.values():
        replica = journaled.get(log.path)
        group_id = log.group_id if replica is None else replica.group_id
        if group_id is None:
            alone.append(PartitionCopies(None, (log,), (None,), Copies((listed[log.path],), (None,), None)))
        else:
            members.setdefault(group_id, []).append(log)
    together = [_make_group(group_id, logs, journaled, listed) for group_id, logs in members.items()]
    return sorted((*alone, *together), key=lambda group: (group.name, group.logs[0].path))


def _make_group(
    group_id: UUID, logs: Sequence[FoundLog], journaled: Mapping[str, JournaledReplica], listed: Mapping[str, ListedLog]
) -> PartitionCopies:
    """Return the copies of one Raft group, with the entries in which they must agree."""
    replicas = tuple(journaled.get(log.path) for log in logs)
    stop = min((replica.commit for replica in replicas if replica is not None), default=None)
    kept_to = tuple(None if replica is None else replica.kept_to for replica in replicas)
    copies = Copies(tuple(listed[log.path] for log in logs), kept_to, stop)
    return PartitionCopies(group_id, tuple(logs), replicas, copies)


def list_notes(groups: Iterable[PartitionCopies]) -> Iterator[str]:
    """Yield notes on copies that are not in these directories, and on entries that only the journal has."""
    for group in groups:
        if group.group_id is not None and len(group.logs) < group.voters:
            yield f"{group}: {len(group.logs)} of {group.voters} replicas are there"
        for replica in group.journaled:
            if replica is not None and replica.held_to < replica.last_index:
                yield (
                    f"{replica.path}: entries {replica.held_to + 1} to {replica.last_index} are only in the "
                    "journal, and the next start writes them: the files lack them without loss"
                )


def journal_problems(found: FoundLogs, journals: Iterable[JournalRead], topics: Iterable[str] | None) -> Iterator[str]:
    """Yield the problems of journals, and replicas whose segment files are all missing."""
    chosen = None if topics is None else set(topics)
    for journal in journals:
        if journal.why is not None:
            yield (
                f"{journal.owner.data_dir}: {journal.why}; its replicas were checked each by itself, and not compared"
            )
        for replica in journal.replicas:
            is_chosen = chosen is None or parse_log_path(replica.path)[0] in chosen
            if is_chosen and replica.kept_to and replica.path not in found.logs:
                yield f"{replica.path}: its journal has {replica.kept_to} entries of it, and no segment file is left"
