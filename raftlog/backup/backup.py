"""Run of a backup: it reads the groups' offsets, then the ends of all logs, then copies batches up to these ends.

So a committed offset of a group is never above the saved end of its partition. The saved batches of a partition are a
consistent prefix of its log; partitions are not consistent with each other. Files are committed while the run
continues, so that the next run continues where an interrupted one ended.

A partition without a leader, or with a damaged log, does not stop the others: the run is completed with the part of it
that is saved.

A compacted partition is saved again as a whole once tombstones may have been removed since the last run: its older
files have records that the removed tombstones deleted. Its files are committed at the end of the run."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeVar

from msgspec import Struct, structs

from raftlog.backup.errors import BackupDamaged, StoreUnreachable
from raftlog.backup.manifest import SavedFile, SavedOffset, SavedPartition, SavedTopic, UnsavedRange
from raftlog.backup.partition_copy import CopiedBatches, CopyOptions, PartitionCopy
from raftlog.backup.state import HEARTBEAT_S, BackupRun, Place
from raftlog.backup.stores import BackupStore
from raftlog.client import BrokerClient, NotListening
from raftlog.client.outage import Outage, is_unanswered
from raftlog.errors import OutcomeUnknown, RaftlogError, StorageError, Unavailable, UnknownGroup, UnknownTopic
from raftlog.topic_config import COMPACT
from raftlog.values.v3 import TopicSummary

T = TypeVar("T")
_OF_A_PARTITION: Final = (Unavailable, OutcomeUnknown, StorageError)
"""Errors of one partition, in spite of which the others are saved, unless `_stops` them."""
_COMMIT_S: Final = 15.0
_ASKED_AT_ONCE: Final = 16
_HEARTBEATS_LOST_MAX: Final = 8
CLEANUP_SETTINGS: Final = ("cleanup.policy", "retention.ms", "retention.bytes")
"""Settings that decide which records are deleted, whose defaults can differ between clusters."""
_DELETE_RETENTION: Final = "delete.retention.ms"
_CLEANUP_POLICY: Final = CLEANUP_SETTINGS[0]


class BackupProgress(NamedTuple):
    """Progress of a run: offsets that are done, their total number, and the bytes that were copied."""

    done: int
    total: int
    size: int


class BackupResult(Struct, frozen=True):
    """Result of a run. `lost`: offsets that the cluster deleted before they were saved.

    `renewed`: compacted partitions that were saved again as a whole. `deleted`: topics deleted during the run.
    `incomplete`: errors of partitions that could not be read up to their ends, by partition."""

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
    renewed: int = 0
    deleted: list[str] = []
    incomplete: dict[str, str] = {}


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
    """Write a heartbeat every `HEARTBEAT_S`, until the task is cancelled.

    Without heartbeats another run may claim the backup, and then the next commit fails. So a store may fail for a
    while; raises `StoreUnreachable` after `_HEARTBEATS_LOST_MAX` failures in a row."""
    lost = 0
    while True:
        await asyncio.sleep(HEARTBEAT_S)
        try:
            await asyncio.to_thread(run.write_heartbeat)
            lost = 0
        except StoreUnreachable:
            lost += 1
            if lost == _HEARTBEATS_LOST_MAX:
                raise


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


def _stops(error: RaftlogError) -> bool:
    """Return whether an error ends the run: one of the backup's store, or of a cluster that does not run."""
    return isinstance(error, BackupDamaged | StoreUnreachable | NotListening)


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
        self._replaced: dict[Place, list[SavedFile]] = {}
        """Committed files of the partitions that are saved again as a whole."""
        self._replacing: list[SavedFile] = []
        """New files of these partitions, which are committed at the end."""
        self._deleted: dict[str, str] = {}
        """Names of topics that were deleted during the run, by topic id."""
        self._failed: dict[Place, RaftlogError] = {}
        """Errors of partitions that could not be read up to their ends."""
        self._stored: dict[Place, int] = {}
        """Ends of the newest stored files."""
        self._kept: set[str] = set()
        """Ids of topics that exist, but that the broker did not list: it may lag behind."""
        saved = run.state.completed
        self._saved_topics = {each.topic_id: each for each in (saved.topics if saved else ())}
        self._saved_rows = {(each.topic_id, each.partition): each for each in (saved.partitions if saved else ())}
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
        await self._copy_all(bounds)
        topics = [topic for topic in topics if topic.topic_id not in self._deleted]
        bounds = [self._saved_bounds(each) for each in bounds if each.saved.topic_id not in self._deleted]
        incomplete = {each.copy.name: str(error) for each in bounds if (error := self._error_of(each)) is not None}
        if bounds and len(incomplete) == len(bounds):
            raise next(iter(self._failed.values()))
        names = {topic.name for topic in topics}
        offsets = [row for row in offsets if row.topic in names]
        lost = self._lost(bounds)
        changes: dict[str, Any] = {
            "topics": topics,
            "partitions": [each.saved for each in bounds],
            "offsets": offsets,
            "lost": lost,
        }
        commit = await self._commit("completed", **self._replacement(), **changes, incomplete=sorted(incomplete))
        pruned = await asyncio.to_thread(self._prune) if prunes else 0
        return BackupResult(
            self._run.run,
            commit,
            len(topics),
            len(bounds),
            len({each.group for each in offsets}),
            self._files,
            self._records,
            self._size,
            lost,
            pruned,
            len(self._replaced),
            sorted(self._deleted.values()),
            incomplete,
        )

    def _error_of(self, bounds: _Bounds) -> RaftlogError | None:
        """Return the error of a partition that could not be read up to its end; None if it is saved."""
        return self._failed.get((bounds.saved.topic_id, bounds.saved.partition))

    def _saved_bounds(self, bounds: _Bounds) -> _Bounds:
        """Return the bounds of a partition after the copy; of one that could not be read, those of its saved part."""
        saved, place = bounds.saved, (bounds.saved.topic_id, bounds.saved.partition)
        if place not in self._failed:
            return bounds
        if self._replaced.pop(place, None) is not None:
            end = max(saved.log_start, self._covered.get(place, 0))
        else:
            end = self._stored.get(place, bounds.begin)
        bounds.copy.lost = [row for row in bounds.copy.lost if row.first < end]
        return bounds._replace(saved=structs.replace(saved, end=end))

    def _lost(self, bounds: Sequence[_Bounds]) -> list[UnsavedRange]:
        """Return the offsets that the cluster deleted before they were saved."""
        lost = [
            UnsavedRange(each.saved.topic_id, each.saved.partition, covered, each.begin)
            for each in bounds
            if (covered := self._covered.get((each.saved.topic_id, each.saved.partition))) is not None
            and covered < each.begin
        ]
        return lost + [row for each in bounds for row in each.copy.lost]

    def _replacement(self) -> dict[str, list[Any]]:
        """Return the files to add and to remove for the partitions that were saved again as a whole."""
        self._replaced = {place: files for place, files in self._replaced.items() if place[0] not in self._deleted}
        return {
            "added": [file for file in self._replacing if (file.topic_id, file.partition) in self._replaced],
            "removed": [file.path for files in self._replaced.values() for file in files],
        }

    async def _topics(self) -> list[SavedTopic]:
        """Return the topics with their ids and settings, without topics that are deleted meanwhile.

        A topic of the last run that is not listed must be deleted, and not hidden from this user."""
        rows = await self._retry("topics", self._client.list_topics)
        listed = {row.name for row in rows}
        for topic in (each for each in self._saved_topics.values() if each.name not in listed):
            with contextlib.suppress(UnknownTopic):
                await self._retry(topic.name, partial(self._client.describe_topic, topic.name))
                self._kept.add(topic.topic_id)
        found = await gather_some(_ASKED_AT_ONCE, [self._topic(row) for row in rows if not row.is_internal])
        return [topic for topic in found if topic is not None]

    async def _topic(self, row: TopicSummary) -> SavedTopic | None:
        """Return a topic with its settings; None if it is deleted meanwhile."""
        name = row.name
        try:
            described = await self._retry(name, lambda: self._client.describe_topic(name))
            overrides = await self._retry(name, lambda: self._client.topic_overrides(name))
        except UnknownTopic:
            self._deleted[row.topic_id] = name
            return None
        configs = described.configs
        settings = {key: configs[key] for key in sorted(overrides) if key in configs}
        defaults = {
            key: configs[key]
            for key in (*CLEANUP_SETTINGS, _DELETE_RETENTION)
            if key in configs and key not in overrides
        }
        return SavedTopic(row.topic_id, name, described.partitions, row.replication_factor, settings, defaults)

    async def _committed_offsets(self, topics: set[str]) -> list[SavedOffset]:
        """Return the committed offsets of all groups in these topics."""
        names = await self._retry("groups", self._client.groups.names)
        saved = self._run.state.completed
        for name in sorted({row.group for row in saved.offsets} - set(names) if saved else ()):
            with contextlib.suppress(UnknownGroup):  # other errors: the group is hidden from this user
                await self._group(name)
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
        found = await gather_some(_ASKED_AT_ONCE, [self._bound(*place) for place in places])
        return [each for each in found if each is not None]

    async def _bound(self, topic: SavedTopic, partition: int) -> _Bounds | None:
        """Check the last saved file of a partition against its log; return the offsets to copy.

        None if the topic was deleted meanwhile."""
        name, place = f"{topic.name}/{partition}", (topic.topic_id, partition)
        copy = PartitionCopy(self._client, self._run, topic, partition, self._options, self._on_file, self._on_copied)
        files = self._run.state.files.get(place)
        compacts = self._was_compacted(topic)
        try:
            log_start, end = await self._retry(
                name, lambda: self._client.offsets(topic.name, partition, linearizable=True)
            )
            if files:
                await copy.check_last(files[-1], log_start, end, compacts=compacts)
        except UnknownTopic:
            self._deleted[topic.topic_id] = topic.name
            return None
        except _OF_A_PARTITION as error:
            if _stops(error):
                raise
            self._failed[place] = error
            covered = self._covered.get(place, 0)
            row = self._saved_rows.get(place)
            return _Bounds(copy, SavedPartition(*place, row.log_start if row else 0, covered), covered)
        begin = min(max(log_start, self._covered.get(place, 0)), end)
        if files and compacts and self._must_renew(topic, partition):
            self._replaced[place], begin = files, log_start
        return _Bounds(copy, SavedPartition(*place, log_start, end), begin)

    def _was_compacted(self, topic: SavedTopic) -> bool:
        """Return whether the topic is compacted, or was when the last run ended."""
        return any(COMPACT in each.value_of(_CLEANUP_POLICY) for each in self._versions(topic))

    def _versions(self, topic: SavedTopic) -> list[SavedTopic]:
        """Return the topic as it is, and as it was when the last run ended."""
        earlier = self._saved_topics.get(topic.topic_id)
        return [topic] if earlier is None else [topic, earlier]

    def _must_renew(self, topic: SavedTopic, partition: int) -> bool:
        """Return whether compaction may have removed tombstones of saved records, before or while this run reads them.

        The run has half of `delete.retention.ms` to read the tombstones that were written since the last one."""
        state = self._run.state
        saved = state.completed
        if COMPACT not in topic.value_of(_CLEANUP_POLICY) or saved is None or state.since_ms is None:
            return True
        if (topic.topic_id, partition) not in self._saved_rows or f"{topic.name}/{partition}" in saved.incomplete:
            return True
        kept_ms = min(int(each.value_of(_DELETE_RETENTION) or 0) for each in self._versions(topic))
        return 2 * (time.time_ns() // 1_000_000 - state.since_ms) >= kept_ms

    async def _copy_all(self, bounds: list[_Bounds]) -> None:
        """Copy the new offsets of all partitions, several partitions at a time."""
        await gather_some(self._options.parallel, [self._copy(each) for each in bounds if each.begin < each.saved.end])

    async def _copy(self, bounds: _Bounds) -> None:
        """Copy the new offsets of a partition, unless its topic is deleted meanwhile."""
        try:
            await bounds.copy.run(bounds.begin, bounds.saved.end)
        except UnknownTopic:
            self._deleted[bounds.saved.topic_id] = bounds.copy.topic.name
        except _OF_A_PARTITION as error:
            if _stops(error):
                raise
            self._failed[bounds.saved.topic_id, bounds.saved.partition] = error

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
        self._files += 1
        if (file.topic_id, file.partition) in self._replaced:
            self._replacing.append(file)
            return
        self._new.append(file)
        self._stored[file.topic_id, file.partition] = file.end
        if asyncio.get_running_loop().time() - self._committed_at >= _COMMIT_S and not self._committing.locked():
            await self._commit("copied")

    async def _commit(
        self, kind: Literal["copied", "completed"], added: Sequence[SavedFile] = (), **changes: Any
    ) -> int:
        """Commit the files stored since the last commit, and those given; return the number of the commit."""
        async with self._committing:
            new, self._new = [*self._new, *added], []
            new.sort(key=lambda file: (file.topic_id, file.partition, file.first))
            commit = await asyncio.to_thread(partial(self._run.commit, kind, added=new, **changes))
            self._committed_at = asyncio.get_running_loop().time()
            return commit.number

    def _prune(self) -> int:
        """Remove files whose records the cluster has deleted, those of deleted topics, and replaced ones.

        Return their number."""
        state = self._run.state
        assert state.completed is not None, "a run prunes after it has completed"
        starts = {(each.topic_id, each.partition): each.log_start for each in state.completed.partitions}
        spared = self._deleted.keys() | self._kept  # the next run knows whether they are deleted for good
        gone = [
            file.path
            for place, files in state.files.items()
            for file in files
            if place[0] not in spared and (place not in starts or file.end <= starts[place])
        ]
        if gone:
            self._run.commit("pruned", removed=gone)
        return self._run.delete_unknown_files()

    async def _retry(self, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `attempt`, which is repeated while the cluster does not answer."""
        return await Outage(f"backup: {what}", self._outage_s, is_temporary=is_unanswered).repeat(attempt)
