"""State of a backup, folded from its commits, and the claim of a run.

    files of a partition: ascending, without overlap
    covered end of a partition = highest end of its files, of its lost ranges, and of its log in the last completed run

A run claims the backup with a commit, which is created exclusively; so an earlier run that still writes fails with its
next commit. An earlier run without an end counts as dead if its heartbeat does not change for `_SILENCE_S`; heartbeats
are compared by content, so the clocks of machines need not agree."""

import os
import socket
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

from raftlog.backup.errors import BackupDamaged, BackupRefused, BackupTaken, BackupTooNew
from raftlog.backup.manifest import (
    COMMITS,
    DATA,
    RUNS,
    SNAPSHOTS,
    BackupCommit,
    Kind,
    SavedFile,
    Snapshot,
    UnsavedRange,
    data_path,
    is_data_path,
    name_of,
    number_of,
    seal,
    unseal,
)
from raftlog.backup.stores import BackupStore

HEARTBEAT_S: Final = 4.0
_SILENCE_S: Final = 3 * HEARTBEAT_S
_SNAPSHOT_COMMITS: Final = 64
_COMMITS_SEARCHED: Final = 1_000
_LOST_AND_FOUND: Final = "lost+found"
"""Folder that exists in the root of a file system."""
_FINAL: Final = ("completed", "pruned")
Place = tuple[str, int]
"""Topic id and partition."""


class BackupState:
    """State of a backup, rebuilt from its commits: saved files, lost offsets, newest completed commit."""

    def __init__(self) -> None:
        self.last: BackupCommit | None = None
        self.completed: BackupCommit | None = None
        """Newest commit that a restoration can use."""
        self.since_ms: int | None = None
        """Begin of the newest completed run, or of the first run if none was completed; None without a commit."""
        self.files: dict[Place, list[SavedFile]] = defaultdict(list)
        self.lost: list[UnsavedRange] = []
        self.since_snapshot = 0

    @classmethod
    def load(cls, store: BackupStore, until_ms: int | None = None) -> "BackupState":
        """Return the state of the backup in a store, with `until_ms` as of that time; empty if nothing is stored.

        Raises `BackupDamaged`."""
        state, number = cls(), 0
        for path in sorted(store.list(SNAPSHOTS), reverse=True):
            data = store.read(path)
            try:
                snapshot = unseal(Snapshot, path, data or b"")
            except BackupDamaged:
                continue  # the commits have all of it
            if until_ms is not None and snapshot.last.time_ms > until_ms:
                continue
            state._take(snapshot)
            number = snapshot.last.number + 1
            break
        names = _commit_numbers(store)
        for found in range(number, max(names, default=-1) + 1):
            try:
                commit = _read_commit(store, found, names)
            except BackupTooNew:
                raise
            except BackupDamaged as error:
                if found in names and found == max(names):
                    raise BackupDamaged(f"{error}; without this newest commit the backup is as before it") from None
                raise
            if until_ms is not None and commit.time_ms > until_ms:
                break
            state.add(commit)
        return state

    def _take(self, snapshot: Snapshot) -> None:
        """Set the state to that of a snapshot."""
        self.last, self.completed, self.lost = snapshot.last, snapshot.completed, list(snapshot.lost)
        self.since_ms = _begin_of(snapshot.completed or snapshot.last)
        for file in snapshot.files:
            self.files[file.topic_id, file.partition].append(file)

    def add(self, commit: BackupCommit) -> None:
        """Apply a commit. Raises `BackupDamaged` if it does not follow the last one."""
        last = self.last
        if last is not None and (commit.backup_id, commit.number) != (last.backup_id, last.number + 1):
            raise BackupDamaged(f"commit {commit.number} does not follow commit {last.number} of the same backup")
        self.last = commit
        self.since_snapshot += 1
        removed = set(commit.removed)
        if removed:
            for place, files in self.files.items():
                self.files[place] = [file for file in files if file.path not in removed]
        for file in commit.added:
            files = self.files[file.topic_id, file.partition]
            if files and files[-1].end > file.first:
                raise BackupDamaged(f"commit {commit.number}: {file.path} overlaps {files[-1].path}")
            files.append(file)
        self.lost += commit.lost
        if commit.kind == "completed":
            self.completed = commit
        if commit.kind == "completed" or self.since_ms is None:
            self.since_ms = _begin_of(commit)

    def snapshot(self) -> Snapshot:
        """Return the state as a snapshot."""
        assert self.last is not None, "a backup without commits has no snapshot"
        files = [file for each in self.files.values() for file in each]
        return Snapshot(last=self.last, completed=self.completed, files=files, lost=self.lost)

    def covered_ends(self) -> dict[Place, int]:
        """Return for each partition with saved or lost records the offset below which all are saved or lost."""
        ends: dict[Place, int] = {place: files[-1].end for place, files in self.files.items() if files}
        rows: Iterable[Any] = [*self.lost, *(self.completed.partitions if self.completed else ())]
        for row in rows:
            place = (row.topic_id, row.partition)
            ends[place] = max(ends.get(place, 0), row.end)
        return ends


class BackupRun:
    """One run of a backup program that has claimed the backup for writing.

    All methods block. The caller calls `write_heartbeat` every `HEARTBEAT_S` seconds."""

    def __init__(self, store: BackupStore, state: BackupState, run: str, backup_id: str, cluster_id: str) -> None:
        self.store, self.state, self.run = store, state, run
        self._backup_id, self._cluster_id = backup_id, cluster_id
        self._begun_ms = time.time_ns() // 1_000_000
        self._beats = 0

    @classmethod
    def claim(cls, store: BackupStore, cluster_id: str, pause: Callable[[float], None] = time.sleep) -> "BackupRun":
        """Claim the backup, or begin one in an empty store; return the run.

        Raises `BackupTaken`, `BackupRefused`, `BackupDamaged`."""
        state = BackupState.load(store)
        last = state.last
        if last is None and store.names() - {RUNS, COMMITS, _LOST_AND_FOUND}:
            raise BackupRefused(f"{store.address} is no backup, and not empty; name an empty or a new place")
        if last is not None and last.cluster_id != cluster_id:
            raise BackupRefused(
                f"{store.address} is the backup of cluster {last.cluster_id}, and this is cluster {cluster_id}; "
                "name another place"
            )
        is_unfinished = last is not None and last.kind not in _FINAL
        if last is not None and is_unfinished:
            _wait_for_silence(store, last, pause)
        backup_id = last.backup_id if last is not None else str(uuid.uuid4())
        claimed = cls(store, state, str(uuid.uuid4()), backup_id, cluster_id)
        claimed.write_heartbeat()
        try:
            claimed.commit("claimed")
        except BackupTaken:
            claimed.end()
            raise BackupTaken(f"another run of `raftlog backup` writes to {store.address}; wait for its end") from None
        if is_unfinished:
            assert last is not None, "a run without an end has commits"
            claimed._delete_files_of(last.run)
        return claimed

    def write_heartbeat(self) -> None:
        """Write a file that shows to other runs that this run is alive."""
        self._beats += 1
        text = f"{socket.gethostname()} {os.getpid()} {self._beats}"
        self.store.write(f"{RUNS}/{self.run}", text.encode())

    def end(self) -> None:
        """Remove the heartbeat of this run, so that the next run need not wait."""
        self.store.delete(f"{RUNS}/{self.run}")

    def path_of(self, place: Place, first: int, end: int) -> str:
        """Return the path of a new data file of this run."""
        return data_path(*place, first, end, self.run)

    def commit(self, kind: Kind, **changes: Any) -> BackupCommit:
        """Store and return a commit. Raises `BackupTaken` if another run has claimed the backup."""
        number = 0 if self.state.last is None else self.state.last.number + 1
        commit = BackupCommit(
            number=number,
            backup_id=self._backup_id,
            cluster_id=self._cluster_id,
            run=self.run,
            kind=kind,
            time_ms=time.time_ns() // 1_000_000,
            begun_ms=self._begun_ms,
            **changes,
        )
        path, data = f"{COMMITS}/{name_of(number)}", seal(commit)
        if not self.store.create(path, data) and self.store.read(path) != data:  # an answer may have been lost
            raise BackupTaken(f"another run has claimed the backup in {self.store.address}; this one ends")
        self.state.add(commit)
        if kind in _FINAL and self.state.since_snapshot >= _SNAPSHOT_COMMITS:
            self.store.write(f"{SNAPSHOTS}/{name_of(number)}", seal(self.state.snapshot()))
            self.state.since_snapshot = 0
        return commit

    def delete_unknown_files(self) -> int:
        """Delete data files that no commit holds any more; return their number."""
        known = self._known_paths()
        unknown = [path for path in self.store.list(DATA) if is_data_path(path) and path not in known]
        for path in unknown:
            self.store.delete(path)
        return len(unknown)

    def _delete_files_of(self, run: str) -> None:
        """Delete the files that an earlier run wrote but did not commit."""
        known, mark = self._known_paths(), f"-{run[:8]}.batches"
        for path in self.store.list(DATA):
            if mark in path and path not in known:
                self.store.delete(path)

    def _known_paths(self) -> set[str]:
        """Return the paths of all committed files."""
        return {file.path for files in self.state.files.values() for file in files}


def format_time(time_ms: int) -> str:
    """Return a time as text, in UTC and whole seconds."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_ms / 1000))


def find_run_with_topic(store: BackupStore, topic: str) -> BackupCommit | None:
    """Return the newest completed commit that has a topic of this name, among the newest commits; None without one."""
    names = _commit_numbers(store)
    for number in sorted(names, reverse=True)[:_COMMITS_SEARCHED]:
        commit = _read_commit(store, number, names)
        if any(each.name == topic for each in commit.topics):
            return commit
    return None


def _commit_numbers(store: BackupStore) -> set[int]:
    """Return the numbers of all commits."""
    return {found for path in store.list(COMMITS) if (found := number_of(path.rpartition("/")[2])) is not None}


def _read_commit(store: BackupStore, number: int, names: set[int]) -> BackupCommit:
    """Return a commit. Raises `BackupDamaged` if it is missing or damaged."""
    path = f"{COMMITS}/{name_of(number)}"
    data = store.read(path) if number in names else None
    if data is None:
        raise BackupDamaged(f"the backup in {store.address} lacks {path}")
    return unseal(BackupCommit, path, data)


def _begin_of(commit: BackupCommit) -> int:
    """Return the begin of a commit's run, or the time of the commit if that is not known."""
    return commit.begun_ms or commit.time_ms


def _wait_for_silence(store: BackupStore, last: BackupCommit, pause: Callable[[float], None]) -> None:
    """Return once the run of the last commit has ended. Raises `BackupTaken` if its heartbeat changes."""
    path = f"{RUNS}/{last.run}"
    before = store.read(path)
    if before is None:
        return
    host, pid, *_ = [*before.decode(errors="replace").split(), "", "unknown"]
    if host == socket.gethostname() and pid.isdecimal() and not _is_alive(int(pid)):
        return
    pause(_SILENCE_S)
    if store.read(path) != before:
        raise BackupTaken(
            f"another run of `raftlog backup` writes to {store.address} (process {pid} on {host}); wait for its end"
        )


def _is_alive(pid: int) -> bool:
    """Return whether a process exists on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
