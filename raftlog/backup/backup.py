"""Run of a backup: it reads the groups' offsets, then the ends of all logs, then copies batches up to these ends.

So a committed offset of a group is never above the saved end of its partition. The saved batches of a partition are a
consistent prefix of its log; partitions are not consistent with each other. Files are committed while the run
continues, so that the next run continues where an interrupted one ended."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeVar

from msgspec import Struct

from raftlog.backup.manifest import SavedFile, SavedOffset, SavedPartition, SavedTopic, UnsavedRange
from raftlog.backup.partition_copy import CopiedBatches, CopyOptions, PartitionCopy
from raftlog.backup.state import HEARTBEAT_S, BackupRun, Place
from raftlog.backup.stores import BackupStore
from raftlog.client import BrokerClient
from raftlog.client.outage import Outage, is_unanswered
from raftlog.errors import UnknownTopic
from raftlog.values.v3 import TopicSummary

T = TypeVar("T")
_COMMIT_S: Final = 15.0
_ASKED_AT_ONCE: Final = 16


class BackupProgress(NamedTuple):
    """Progress of a run: offsets that are done, their total number, and the bytes that were copied."""

    done: int
    total: int
    size: int


class BackupResult(Struct, frozen=True):
    """Result of a run. `lost`: offsets that the cluster deleted before they were saved."""

    run: str
    number: int
    topics: int
    partitions: int
    groups: int
    files: int
    records: int
    bytes: int
    lost: list[UnsavedRange]
    pruned: int = 0


class _Bounds(NamedTuple):
    """Partition in this run: its copy, the bounds of its log, and the first offset to copy."""

    copy: PartitionCopy
    saved: SavedPartition
    begin: int


async def run_backup(
    client: BrokerClient,
    store: BackupStore,
    options: CopyOptions,
    on_progress: Callable[[BackupProgress], None],
    *,
    prunes: bool = False,
) -> BackupResult:
    """Add everything that is new to a backup, or begin one. `prunes`: remove files below the log start offsets.

    Raises `BackupTaken`, `BackupRefused`, `BackupDamaged`, `StoreUnreachable`, and the errors of the client."""
    await client.find_all_brokers()
    cluster_id = await client.cluster_id()
    run = await asyncio.to_thread(BackupRun.claim, store, cluster_id)
    beating = asyncio.create_task(_send_heartbeats(run))
    try:
        work = asyncio.create_task(_Backup(client, run, options, on_progress).run(prunes))
        await asyncio.wait({work, beating}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            beating.result()
        return work.result()
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        with contextlib.suppress(Exception):  # the next run waits until it finds no heartbeat
            await asyncio.to_thread(run.end)


async def _send_heartbeats(run: BackupRun) -> None:
    """Write a heartbeat every `HEARTBEAT_S`, until the task is cancelled."""
    while True:
        await asyncio.sleep(HEARTBEAT_S)
        await asyncio.to_thread(run.write_heartbeat)


async def gather_some(limit: int, work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of coroutines in order; run at most `limit` at a time, and cancel all after an error."""
    results: dict[int, T] = {}
    waiting = iter(enumerate(work))

    async def run_in_turn() -> None:
        """Await the remaining tasks one after another, and store their results."""
        for number, each in waiting:
            results[number] = await each

    tasks = [asyncio.create_task(run_in_turn()) for _ in range(min(limit, len(work)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _, each in waiting:
            each.close()
    return [results[number] for number in range(len(work))]


class _Backup:
    """One run of a backup: copies new batches of all partitions and commits them as it proceeds."""

    def __init__(
        self,
        client: BrokerClient,
        run: BackupRun,
        options: CopyOptions,
        on_progress: Callable[[BackupProgress], None],
    ) -> None:
        """Prepare to back the cluster up to the storage of `run`."""
        self._client, self._run, self._options, self._on_progress = client, run, options, on_progress
        self._outage_s = options.give_up_after_s
        self._new: list[SavedFile] = []
        """Files that are stored but not committed."""
        self._committing = asyncio.Lock()
        self._committed_at = asyncio.get_running_loop().time()
        self._covered: dict[Place, int] = {}
        self._left: dict[Place, tuple[int, int]] = {}
        self._total = self._size = self._records = self._files = 0

    async def run(self, prunes: bool) -> BackupResult:
        """Copy all new batches, commit them, and return the result."""
        topics = await self._topics()
        offsets = await self._committed_offsets({topic.name for topic in topics})
        bounds = await self._bounds(topics)
        for each in bounds:
            self._left[each.saved.topic_id, each.saved.partition] = (each.begin, each.saved.end)
        self._total = sum(end - begin for begin, end in self._left.values())
        lost = [
            UnsavedRange(each.saved.topic_id, each.saved.partition, covered, each.begin)
            for each in bounds
            if (covered := self._covered.get((each.saved.topic_id, each.saved.partition))) is not None
            and covered < each.begin
        ]
        await self._copy_all(bounds)
        lost += [row for each in bounds for row in each.copy.lost]
        commit = await self._commit(
            "completed", lost=lost, topics=topics, partitions=[each.saved for each in bounds], offsets=offsets
        )
        pruned = await asyncio.to_thread(self._prune) if prunes else 0
        groups = len({each.group for each in offsets})
        return BackupResult(
            self._run.run,
            commit,
            len(topics),
            len(bounds),
            groups,
            self._files,
            self._records,
            self._size,
            lost,
            pruned,
        )

    async def _topics(self) -> list[SavedTopic]:
        """Return the topics with their ids and settings, without topics that are deleted meanwhile."""
        rows = await self._retry("topics", self._client.list_topics)
        found = await gather_some(_ASKED_AT_ONCE, [self._topic(row) for row in rows if not row.is_internal])
        return [topic for topic in found if topic is not None]

    async def _topic(self, row: TopicSummary) -> SavedTopic | None:
        """Return a topic with its settings; None if it is deleted meanwhile."""
        name = row.name
        try:
            described = await self._retry(name, lambda: self._client.describe_topic(name))
            overrides = await self._retry(name, lambda: self._client.topic_overrides(name))
        except UnknownTopic:
            return None
        settings = {key: described.configs[key] for key in sorted(overrides) if key in described.configs}
        return SavedTopic(row.topic_id, name, described.partitions, row.replication_factor, settings)

    async def _committed_offsets(self, topics: set[str]) -> list[SavedOffset]:
        """Return the committed offsets of all groups in these topics."""
        names = await self._retry("groups", self._client.groups.names)
        return [
            row
            for rows in await gather_some(_ASKED_AT_ONCE, [self._group(name) for name in names])
            for row in rows
            if row.topic in topics
        ]

    async def _group(self, name: str) -> list[SavedOffset]:
        """Return the committed offsets of a group in all topics."""
        found = await self._retry(f"group {name}", lambda: self._client.groups.committed(name))
        return [
            SavedOffset(name, place.topic, place.partition, committed.offset, committed.metadata)
            for place, committed in sorted(found.items())
        ]

    async def _bounds(self, topics: list[SavedTopic]) -> list[_Bounds]:
        """Check the saved files of each partition against its log; return all partitions with the offsets to copy."""
        self._covered = self._run.state.covered_ends()
        places = [(topic, number) for topic in topics for number in range(topic.partitions)]
        return list(await gather_some(_ASKED_AT_ONCE, [self._bound(*place) for place in places]))

    async def _bound(self, topic: SavedTopic, partition: int) -> _Bounds:
        """Check the last saved file of a partition against its log; return the offsets to copy."""
        name, place = f"{topic.name}/{partition}", (topic.topic_id, partition)
        log_start, end = await self._retry(name, lambda: self._client.offsets(topic.name, partition, linearizable=True))
        copy = PartitionCopy(self._client, self._run, topic, partition, self._options, self._on_file, self._on_copied)
        files = self._run.state.files.get(place)
        if files:
            await copy.check_last(files[-1], log_start, end)
        begin = min(max(log_start, self._covered.get(place, 0)), end)
        return _Bounds(copy, SavedPartition(*place, log_start, end), begin)

    async def _copy_all(self, bounds: list[_Bounds]) -> None:
        """Copy the new offsets of all partitions, several partitions at a time."""
        copies = [each.copy.run(each.begin, each.saved.end) for each in bounds if each.begin < each.saved.end]
        await gather_some(self._options.parallel, copies)

    def _on_copied(self, copied: CopiedBatches) -> None:
        """Report progress after batches of a partition were copied."""
        _, end = self._left[copied.place]
        self._left[copied.place] = (copied.offset, end)
        self._size += copied.size
        self._records += copied.records
        left = sum(max(0, end - offset) for offset, end in self._left.values())
        self._on_progress(BackupProgress(self._total - left, self._total, self._size))

    async def _on_file(self, file: SavedFile) -> None:
        """Count a stored file; commit the stored files if the last commit is old enough."""
        self._new.append(file)
        self._files += 1
        if asyncio.get_running_loop().time() - self._committed_at >= _COMMIT_S and not self._committing.locked():
            await self._commit("copied")

    async def _commit(self, kind: Literal["copied", "completed"], **changes: Any) -> int:
        """Commit the files stored since the last commit; return the number of the commit."""
        async with self._committing:
            new, self._new = self._new, []
            new.sort(key=lambda file: (file.topic_id, file.partition, file.first))
            commit = await asyncio.to_thread(partial(self._run.commit, kind, added=new, **changes))
            self._committed_at = asyncio.get_running_loop().time()
            return commit.number

    def _prune(self) -> int:
        """Remove files whose records the cluster has deleted, and those of deleted topics; return their number."""
        state = self._run.state
        assert state.completed is not None, "a run prunes after it has completed"
        starts = {(each.topic_id, each.partition): each.log_start for each in state.completed.partitions}
        gone = [
            file.path
            for place, files in state.files.items()
            for file in files
            if place not in starts or file.end <= starts[place]
        ]
        if gone:
            self._run.commit("pruned", removed=gone)
            for path in gone:
                self._run.store.delete(path)
        return len(gone)

    async def _retry(self, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `attempt`, which is repeated while the cluster does not answer."""
        return await Outage(f"backup: {what}", self._outage_s, is_temporary=is_unanswered).repeat(attempt)
