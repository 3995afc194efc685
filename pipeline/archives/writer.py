"""Writer of an archive, its only source of changes: one run at a time, each step as one commit.

    begin    lock, read the commits, move the last run's files, claim, delete staged files of other runs
    commit   staged files durable → commit created (the step is done) → files moved to their final paths → snapshot
    end      staged files of this run deleted, lock released

The next run completes an interrupted one: staged files with a commit are moved, those without are deleted. Commit n + 1
is created when the files of all commits up to n are durable at their final paths, so at most one commit is unsettled.
Claims fence other runs: a run whose next commit number is taken ends with `ArchiveTaken`; it can never commit again, so
its staged files may be deleted. Called by `archive` and `compaction`, on the driver."""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from raftlog.pipeline.archives.files import Files
from raftlog.pipeline.archives.manifest import (
    COMMITS,
    INTERNALS,
    SNAPSHOTS,
    STAGING,
    Commit,
    Coverage,
    Kind,
    LostRange,
    StagedFile,
    encode_commit,
)
from raftlog.pipeline.archives.state import (
    SNAPSHOT_EVERY,
    ArchiveState,
    is_archive,
    list_still_staged,
    missing_file_error,
    read_newest,
    write_snapshot,
)
from raftlog.pipeline.errors import ArchiveTaken, NotAnArchive
from raftlog.types import TopicPartition

_LOCK: Final = f"{INTERNALS}/lock"


@contextmanager
def open_writer(files: Files, *, grace_seconds: float = 0, may_create: bool = False) -> Iterator["ArchiveWriter"]:
    """Claim the archive for one run; delete files that were replaced more than `grace_seconds` ago.

    Raises `NotAnArchive` if there is no archive, or with `may_create` if a directory without archive has other files;
    `ArchiveTaken` and `ArchiveDamaged`."""
    if not is_archive(files):
        _require_begun_or_empty(files, may_create=may_create)
        for directory in (COMMITS, SNAPSHOTS, STAGING):
            files.make_directory(directory)
    lock = files.lock(_LOCK)
    try:
        writer = ArchiveWriter(files, grace_seconds)
        try:
            yield writer
        except Exception as error:
            writer.delete_staging()
            writer.check_claim(error)
            raise
        writer.delete_staging()
    finally:
        lock.release()


def _require_begun_or_empty(files: Files, *, may_create: bool) -> None:
    """Raise `NotAnArchive` for a directory with other files, or, without `may_create`, for one without an archive."""
    others = [name for name in files.names("") if name != INTERNALS]
    if others or not may_create:
        lies = f"other files lie there, such as {others[0]}" if others else "nothing was archived there yet"
        raise NotAnArchive(
            f"{files.uri} is not an archive: {lies}; name an archive, or an empty directory to begin one"
        )


class ArchiveWriter:
    """Run that has claimed an archive for writing; `state` is the state after its latest commit."""

    def __init__(self, files: Files, grace_seconds: float) -> None:
        """Claim the archive for this run, and create it if it does not exist.

        Complete the last commit of an earlier run, and delete its staged files, and files that were dropped more than
        `grace_seconds` ago."""
        self._files = files
        self.run = str(uuid.uuid4())
        if not is_archive(files):
            self._create(Commit(0, "created", self.run, _now_ms(), archive_id=str(uuid.uuid4())))
        found = read_newest(files)
        self.state: ArchiveState = found.newest
        self._snapshot = found.snapshot
        if found.unsettled is not None:
            self._move_all(found.unsettled.added)
        deleted = self.delete_dropped(grace_seconds)
        self._commit(self._next_commit("claimed")._replace(deleted=deleted))
        for other in files.names(STAGING):
            files.delete_directory(f"{STAGING}/{other}")
        files.make_directory(self.staging)
        self._write_snapshot_if_due()

    @property
    def staging(self) -> str:
        """Directory for files that tasks of this run write."""
        return f"{STAGING}/{self.run}"

    def commit(
        self,
        kind: Kind,
        added: Sequence[StagedFile],
        *,
        covered: Mapping[TopicPartition, Coverage] | None = None,
        dropped: Sequence[str] = (),
        lost: Sequence[LostRange] = (),
    ) -> None:
        """Commit one step atomically.

        Raises `ArchiveTaken` if another run has claimed the archive meanwhile, and `NotAnArchive` if the final path of
        an added file is taken by a file that is not of this archive; in both cases nothing was changed."""
        self._require_staged(added)
        self._files.sync_directories([self.staging])
        self._commit(
            self._next_commit(kind)._replace(
                covered=dict(covered or {}), added=tuple(added), dropped=tuple(dropped), lost=tuple(lost)
            )
        )
        self._move_all(added)
        self._write_snapshot_if_due()

    def delete_dropped(self, grace_seconds: float) -> tuple[str, ...]:
        """Delete files that were replaced more than `grace_seconds` ago; return their paths."""
        before_ms = _now_ms() - grace_seconds * 1000
        paths = tuple(path for path, since_ms in self.state.dropped.items() if since_ms <= before_ms)
        for path in paths:
            self._files.delete(path)
        return paths

    def check_claim(self, error: Exception) -> None:
        """Raise `ArchiveTaken` if the cause of the error is another run, which has deleted the staged files."""
        if self._files.sizes([self._next_commit("claimed").name]) != [None]:
            raise self._taken_error() from error

    def delete_staging(self) -> None:
        """Delete the staged files of this run."""
        self._files.delete_directory(self.staging)

    def _require_staged(self, added: Sequence[StagedFile]) -> None:
        """Raise `ArchiveTaken` if a staged file is missing, and `NotAnArchive` if the final path of one is taken."""
        sizes = self._files.sizes([staged.staged for staged in added])
        for staged, size in zip(added, sizes, strict=True):
            if size != staged.file.size:
                raise ArchiveTaken(
                    f"{self._files.uri}/{staged.staged} is missing: another run has claimed this archive, or "
                    "executors write to a file system that the driver does not see"
                )
        taken = self._files.sizes([staged.file.path for staged in added])
        for staged, size in zip(added, taken, strict=True):
            if size is not None:
                name = f"{self._files.uri}/{staged.file.path}"
                raise NotAnArchive(f"{name} is not of this archive, and has the name of a new file: move it away")

    def _next_commit(self, kind: Kind) -> Commit:
        """Return a commit of this run that changes nothing yet, with the next number."""
        return Commit(self.state.number + 1, kind, self.run, _now_ms(), self.state.archive_id)

    def _commit(self, commit: Commit) -> None:
        """Create the commit, and advance the state."""
        state = self.state.with_commits([commit])
        self._create(commit)
        self.state = state

    def _write_snapshot_if_due(self) -> None:
        """Write a snapshot if it is due and all files are at their final paths."""
        if self.state.number - self._snapshot >= SNAPSHOT_EVERY:
            write_snapshot(self._files, self.state)
            self._snapshot = self.state.number

    def _create(self, commit: Commit) -> None:
        """Create a commit's file. Raises `ArchiveTaken` if another run has created one with its number."""
        try:
            self._files.create(commit.name, encode_commit(commit))
        except FileExistsError:
            raise self._taken_error() from None

    def _taken_error(self) -> ArchiveTaken:
        """Return the error for an archive that another run has claimed."""
        return ArchiveTaken(
            f"{self._files.uri}: another run has claimed this archive; restart this one when it has ended"
        )

    def _move_all(self, added: Sequence[StagedFile]) -> None:
        """Move the files durably to their final paths; some may already be there."""
        for directory in sorted({_directory(staged.file.path) for staged in added}):
            self._files.make_directory(directory)
        for staged in list_still_staged(self._files, added):
            self._move(staged)
        self._files.sync_directories({_directory(staged.file.path) for staged in added})

    def _move(self, staged: StagedFile) -> None:
        """Move a file to its final path, unless another run already has."""
        try:
            self._files.move(staged.staged, staged.file.path)
        except FileNotFoundError:
            if list_still_staged(self._files, [staged]):  # no other run has moved it
                raise missing_file_error(self._files, staged.file) from None


def _directory(path: str) -> str:
    """Return the directory of a path."""
    return path.rpartition("/")[0]


def _now_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return int(time.time() * 1000)
