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

from raftlog.backup.errors import BackupDamaged, BackupRefused, BackupTaken
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
    name_of,
    number_of,
    seal,
    unseal,
)
from raftlog.backup.stores import BackupStore

HEARTBEAT_S: Final = 4.0
_SILENCE_S: Final = 3 * HEARTBEAT_S
_SNAPSHOT_COMMITS: Final = 64
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
        self.files: dict[Place, list[SavedFile]] = defaultdict(list)
        self.lost: list[UnsavedRange] = []
        self.since_snapshot = 0

    @classmethod
    def load(cls, store: BackupStore) -> "BackupState":
        """Return the state of the backup in a store; empty if nothing is stored. Raises `BackupDamaged`."""
        state, number = cls(), 0
        for path in sorted(store.list(SNAPSHOTS), reverse=True):
            data = store.read(path)
            try:
                snapshot = unseal(Snapshot, path, data or b"")
            except BackupDamaged:
                continue  # the commits have all of it
            state._take(snapshot)
            number = snapshot.last.number + 1
            break
        names = {found for path in store.list(COMMITS) if (found := number_of(path.rpartition("/")[2])) is not None}
        for found in range(number, max(names, default=-1) + 1):
            path = f"{COMMITS}/{name_of(found)}"
            data = store.read(path) if found in names else None
            if data is None:
                raise BackupDamaged(f"the backup in {store.address} lacks {path}")
            state.add(unseal(BackupCommit, path, data))
        return state

    def _take(self, snapshot: Snapshot) -> None:
        """Set the state to that of a snapshot."""
        self.last, self.completed, self.lost = snapshot.last, snapshot.completed, list(snapshot.lost)
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
            claimed._delete_unknown_files()
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

    def _delete_unknown_files(self) -> None:
        """Delete files that earlier runs wrote but did not commit."""
        known = {file.path for files in self.state.files.values() for file in files}
        for path in self.store.list(DATA):
            if path not in known:
                self.store.delete(path)


def _wait_for_silence(store: BackupStore, last: BackupCommit, pause: Callable[[float], None]) -> None:
    """Return once the run of the last commit has ended. Raises `BackupTaken` if its heartbeat changes."""
    path = f"{RUNS}/{last.run}"
    before = store.read(path)
    if before is None:
        return
    host, pid = before.decode(errors="replace").split()[:2]
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
