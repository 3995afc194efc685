"""State of an archive, computed from its commits.

    start ≤ end of each coverage; coverage of a partition only grows, and its log stays the same one
    every path is in `files` (live) or in `dropped`, never in both; each row is in exactly one live file

A reader reads the newest snapshot and about `SNAPSHOT_EVERY` commits, more if runs were interrupted before their
snapshot. A snapshot has the state after the commit with its number; if it is damaged, an older one is read. Commits are
never deleted, so that a run that was paused for long finds that the number of its next commit is taken."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from raftlog.pipeline.archives.files import Files
from raftlog.pipeline.archives.manifest import (
    COMMITS,
    SNAPSHOTS,
    ArchivedFile,
    Commit,
    Coverage,
    CoveredRow,
    StagedFile,
    decode_commit,
    decode_coverage,
    decode_file,
    encode_coverage,
    invalid_content_error,
    numbers_in,
    path_of_number,
    seal,
    unseal,
)
from raftlog.pipeline.archives.validation import Count, check_rows_path
from raftlog.pipeline.errors import ArchiveDamaged, NotAnArchive
from raftlog.types import TopicPartition

SNAPSHOT_EVERY: Final = 16
_SNAPSHOTS_TRIED: Final = 3


class ArchiveState(NamedTuple):
    """State of an archive after commit `number`; the mappings are replaced and never changed."""

    archive_id: str
    number: int
    covered: dict[TopicPartition, Coverage]
    files: dict[str, ArchivedFile]
    """Live files by path, relative to the archive."""
    dropped: dict[str, int]
    """Files whose rows are in other files now, and the time of their replacement (milliseconds)."""

    def with_commits(self, commits: Sequence[Commit]) -> "ArchiveState":
        """Return the state after further commits. Raises `ArchiveDamaged` if they do not follow this one."""
        covered, files, dropped = dict(self.covered), dict(self.files), dict(self.dropped)
        for number, commit in enumerate(commits, self.number + 1):
            if commit.number != number or commit.kind == "created":
                raise ArchiveDamaged(f"{path_of_number(COMMITS, number)}: this file has commit {commit.number} instead")
            for place, coverage in commit.covered.items():
                _require_growth(commit, place, covered.get(place), coverage)
                covered[place] = coverage
            for path in commit.dropped:
                if files.pop(path, None) is None:
                    raise ArchiveDamaged(f"{commit.name}: replaces {path}, which the archive does not have")
                dropped[path] = commit.time_ms
            for _, file in commit.added:
                if file.path in files or file.path in dropped:
                    raise ArchiveDamaged(f"{commit.name}: adds {file.path}, which is there already")
                files[file.path] = file
            for path in commit.deleted:
                dropped.pop(path, None)
        return ArchiveState(self.archive_id, self.number + len(commits), covered, files, dropped)

    def files_of_topics(self, topics: Sequence[str] | None) -> list[ArchivedFile]:
        """Return the live files of topics (None: all), sorted by topic, partition and first offset."""
        wanted = None if topics is None else set(topics)
        return sorted(file for file in self.files.values() if wanted is None or file.topic in wanted)


def _require_growth(commit: Commit, place: TopicPartition, before: Coverage | None, now: Coverage) -> None:
    """Raise `ArchiveDamaged` if a commit changes a partition's coverage other than by extending its end."""
    fits = now.start <= now.end
    if before is not None:
        fits = (now.log_id, now.start) == (before.log_id, before.start) and now.end >= before.end
    if not fits:
        raise ArchiveDamaged(f"{commit.name}: {place} cannot be covered by {now} after {before}")


class ReadArchive(NamedTuple):
    """Archive as it was read; `newest` is the state after all commits.

    `unsettled` is the last commit that added files, if these may still be in the staging directory; None if there is no
    such commit. `before` is the state before this commit, or `newest` without one."""

    newest: ArchiveState
    before: ArchiveState
    unsettled: Commit | None
    snapshot: int
    """Number of the snapshot that was read; 0 if none was."""


def is_archive(files: Files) -> bool:
    """Return whether the directory has at least one commit."""
    return bool(numbers_in(files.names(COMMITS)))


def read_newest(files: Files) -> ReadArchive:
    """Read the newest state. Raises `NotAnArchive` and `ArchiveDamaged`."""
    there = numbers_in(files.names(COMMITS))
    if not there:
        raise NotAnArchive(
            f"{files.uri} is not an archive: it has no {COMMITS}; name the directory that was archived to"
        )
    state = _read_base_state(files, there[-1])
    snapshot = state.number
    numbers = range(snapshot + 1, there[-1] + 1)
    commits = [_read_commit(files, number) for number in numbers]
    at = max((n for n, commit in enumerate(commits) if commit.added), default=None)
    if at is None:
        newest = state.with_commits(commits)
        return ReadArchive(newest, newest, None, snapshot)
    before = state.with_commits(commits[:at])
    return ReadArchive(before.with_commits(commits[at:]), before, commits[at], snapshot)


def read_settled(files: Files) -> ArchiveState:
    """Return, for readers, the newest state whose files are all at their final paths.

    A run that was interrupted after its last commit may have left files in its staging directory; the next run moves
    them. Until then readers do not see their rows. Raises `ArchiveDamaged` if a file has neither path."""
    newest, before, unsettled, _ = read_newest(files)
    if unsettled is None or not (waiting := list_still_staged(files, unsettled.added)):
        return newest
    lost = [staged for staged in waiting if files.sizes([staged.staged]) == [None]]
    if list_still_staged(files, lost):  # looked at twice: they may just have been moved
        raise missing_file_error(files, lost[0].file)
    return before


def read_state_at(files: Files, number: int) -> ArchiveState:
    """Return the state after commit `number`, which exists; raises `ArchiveDamaged`."""
    state = _read_base_state(files, number)
    return state.with_commits([_read_commit(files, each) for each in range(state.number + 1, number + 1)])


def list_still_staged(files: Files, added: Sequence[StagedFile]) -> list[StagedFile]:
    """Return the files that are not at their final paths."""
    sizes = files.sizes([staged.file.path for staged in added])
    return [staged for staged, size in zip(added, sizes, strict=True) if size != staged.file.size]


def missing_file_error(files: Files, file: ArchivedFile) -> ArchiveDamaged:
    """Return the error for a file that is missing or has another size."""
    return ArchiveDamaged(
        f"{files.uri}/{file.path}: missing, or not of the {file.size} bytes that were archived; restore "
        "the file from a copy of the archive, or archive again to an empty directory"
    )


def _read_commit(files: Files, number: int) -> Commit:
    """Return a commit. Raises `ArchiveDamaged` where it is missing or damaged."""
    name = path_of_number(COMMITS, number)
    try:
        return decode_commit(f"{files.uri}/{name}", files.read(name))
    except FileNotFoundError:
        raise ArchiveDamaged(f"{files.uri}/{name} is missing; restore it from a copy of the archive") from None


def _read_base_state(files: Files, last_commit: int) -> ArchiveState:
    """Return the state of the newest readable snapshot up to commit `last_commit`; else that after the first commit."""
    numbers = [number for number in numbers_in(files.names(SNAPSHOTS)) if number <= last_commit]
    for number in numbers[: -_SNAPSHOTS_TRIED - 1 : -1]:
        name = f"{files.uri}/{path_of_number(SNAPSHOTS, number)}"
        try:
            fields = unseal(name, files.read(path_of_number(SNAPSHOTS, number)))
        except ArchiveDamaged:
            continue  # an older one, or the commits, have the same content
        return _decode_snapshot(name, number, fields)
    first = _read_commit(files, 0)
    if first.kind != "created" or first.number != 0:
        raise ArchiveDamaged(f"{files.uri}/{first.name}: an archive does not begin like this")
    return ArchiveState(first.archive_id, 0, {}, {}, {})


def write_snapshot(files: Files, state: ArchiveState) -> None:
    """Write a snapshot of a state. All its files must be at their final paths, because readers do not check that."""
    held = {"covered": encode_coverage(state.covered), "files": sorted(state.files.values())}
    content = seal({**state._asdict(), **held})
    try:
        files.create(path_of_number(SNAPSHOTS, state.number), content)
    except FileExistsError:
        return  # another run's, with the same content


class _StoredSnapshot(msgspec.Struct):
    """Members of a snapshot with their JSON types."""

    archive_id: str
    number: Count
    covered: list[CoveredRow]
    files: list[Any]
    dropped: dict[str, Count]


def _decode_snapshot(name: str, number: int, fields: dict[str, Any]) -> ArchiveState:
    """Decode a snapshot. Raises `ArchiveDamaged` for content that raftlog does not write."""
    try:
        stored = msgspec.convert(fields, _StoredSnapshot)
        files = {file.path: file for file in map(decode_file, stored.files)}
        dropped = {check_rows_path(path): since for path, since in stored.dropped.items()}
        if both := files.keys() & dropped.keys():
            raise ValueError(f"{min(both)} is in use, and replaced")
        if stored.number != number:
            raise ValueError(f"number is {stored.number}")
        return ArchiveState(stored.archive_id, number, decode_coverage(stored.covered), files, dropped)
    except ValueError as error:
        raise invalid_content_error(name, "a snapshot", error) from error
