"""Run of a restoration: topics with temporary settings, then batches, log starts, a comparison, settings, and groups.

    end of the log ≤ saved end,   each append begins exactly at the end of the log (`VersionConflict` otherwise)

Until everything is compared, topics keep all records and accept batches of any size; then they get their saved
settings. An interrupted restoration continues at the end of each log. Committed offsets of groups come last."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from raftlog.backup.backup import gather_some
from raftlog.backup.errors import BackupRefused
from raftlog.backup.manifest import BackupCommit, SavedPartition, SavedTopic
from raftlog.backup.partition_restore import PartitionRestore, RestoredPart
from raftlog.backup.state import BackupState
from raftlog.backup.stores import BackupStore
from raftlog.client import BrokerClient, CommittedOffset
from raftlog.errors import TopicExists
from raftlog.types import Offset, TopicPartition

_TEMPORARY: Final = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "max.message.bytes": str(256 << 20),
    "min.insync.replicas": "1",
}
"""Settings of topics until all records are compared: nothing is deleted, and no batch is refused."""
_OFFSETS_AT_ONCE: Final = 500

GroupOffsets: TypeAlias = dict[str, dict[TopicPartition, int | CommittedOffset]]
"""Committed offsets by group."""


class RestoreOptions(NamedTuple):
    """Choice of topics by name (all if empty), new names, number of replicas, and limits.

    `keeps_deleted`: also restore saved records that the cluster had deleted by the last run. `continues`: topics may
    exist, from an interrupted restoration. `compares`: compare the restored logs with the files."""

    topics: tuple[str, ...] = ()
    renamed: Mapping[str, str] = {}
    replication_factor: int | None = None
    keeps_deleted: bool = False
    continues: bool = False
    compares: bool = True
    with_groups: bool = True
    parallel: int = 4
    give_up_after_s: float = 30.0


class RestoreProgress(NamedTuple):
    """Progress: offsets that are done, their total number, and the bytes that were read from the store."""

    done: int
    total: int
    size: int


class RestoreResult(Struct, frozen=True):
    """Result of a restoration, or of a check of the backup alone."""

    time_ms: int
    topics: int
    partitions: int
    groups: int
    records: int
    bytes: int


class RestorePlan:
    """Topics and partitions to restore from a backup."""

    def __init__(self, store: BackupStore, options: RestoreOptions) -> None:
        """Read the backup's manifest. Raises `BackupRefused` and `BackupDamaged`."""
        self.store, self.options = store, options
        self.state = BackupState.load(store)
        if self.state.last is None:
            raise BackupRefused(f"{store.address} holds no backup")
        if self.state.completed is None:
            raise BackupRefused(f"no run of `raftlog backup` to {store.address} was completed; run it again")
        self.commit: BackupCommit = self.state.completed
        names = {topic.name for topic in self.commit.topics}
        missing = sorted({*options.topics, *options.renamed} - names)
        if missing:
            raise BackupRefused(f"the backup has no topic {missing[0]!r}; it has {', '.join(sorted(names)) or 'none'}")
        chosen = {*options.topics} or names
        self.topics = [topic for topic in self.commit.topics if topic.name in chosen]
        self._check_names()
        ids = {topic.topic_id: topic for topic in self.topics}
        self.parts = [self._part(ids[row.topic_id], row) for row in self.commit.partitions if row.topic_id in ids]
        self.total = sum(part.end - part.begin for part in self.parts)

    def _check_names(self) -> None:
        """Raise `BackupRefused` if two topics would get the same name."""
        names = [self.name_of(topic) for topic in self.topics]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise BackupRefused(f"two topics would be restored as {twice!r}; give each another name")

    def name_of(self, topic: SavedTopic) -> str:
        """Return the name of a topic after the restoration."""
        return self.options.renamed.get(topic.name, topic.name)

    def offsets_by_group(self) -> GroupOffsets:
        """Return the committed offsets to restore, under the new names of topics."""
        names = {topic.name: self.name_of(topic) for topic in self.topics}
        found: GroupOffsets = {}
        for row in self.commit.offsets:
            if row.topic in names:
                place = TopicPartition(names[row.topic], row.partition)
                found.setdefault(row.group, {})[place] = CommittedOffset(Offset(row.offset), row.metadata)
        return found

    def _part(self, topic: SavedTopic, row: SavedPartition) -> RestoredPart:
        """Return the offsets of one partition to restore, with the files that hold them."""
        files = [file for file in self.state.files.get((row.topic_id, row.partition), ()) if file.first < row.end]
        begin = row.log_start
        if self.options.keeps_deleted and files:
            begin = min(begin, files[0].first)
        elif files:
            files = [file for file in files if file.end > begin]
        return RestoredPart(self.name_of(topic), row.partition, begin, row.end, files)


async def check_backup(plan: RestorePlan, on_progress: Callable[[RestoreProgress], None]) -> RestoreResult:
    """Read and check all that would be restored, without a cluster. Raises `BackupDamaged`."""
    return await _Restoration(None, plan, on_progress).run()


async def run_restore(
    client: BrokerClient, plan: RestorePlan, on_progress: Callable[[RestoreProgress], None]
) -> RestoreResult:
    """Restore topics and groups. Raises the errors of backups and of the client."""
    return await _Restoration(client, plan, on_progress).run()


class _Restoration:
    """Restoration in progress; without a client it only reads and checks the files."""

    def __init__(
        self, client: BrokerClient | None, plan: RestorePlan, on_progress: Callable[[RestoreProgress], None]
    ) -> None:
        """Prepare to execute a plan; without a client it is only checked."""
        self._client, self._plan, self._on_progress = client, plan, on_progress
        self._done = self._size = self._records = 0

    async def run(self) -> RestoreResult:
        """Create the topics, then restore records, settings and committed offsets; return the totals.

        Without a client nothing is written."""
        client, plan = self._client, self._plan
        if client is not None:
            await client.find_all_brokers()
            await self._create_topics(client)
        await gather_some(plan.options.parallel, [self._restore_part(part) for part in plan.parts])
        offsets = plan.offsets_by_group() if plan.options.with_groups else {}
        if client is not None:
            await self._apply_settings(client)
            await self._commit_offsets(client, offsets)
        return RestoreResult(
            plan.commit.time_ms, len(plan.topics), len(plan.parts), len(offsets), self._records, self._size
        )

    async def _create_topics(self, client: BrokerClient) -> None:
        """Create the topics with temporary settings; with `continues` change those that exist."""
        plan, options = self._plan, self._plan.options
        existing = set(await client.topics())
        names = {plan.name_of(topic): topic for topic in plan.topics}
        taken = sorted(existing & names.keys())
        if taken and not options.continues:
            raise BackupRefused(
                f"topic {taken[0]!r} exists; delete it, restore under another name (--rename), or continue an "
                "interrupted restoration (--continue)"
            )
        brokers = len(await client.brokers())
        for name, topic in names.items():
            if name in existing:
                await self._reopen(client, name, topic)
                continue
            factor = options.replication_factor or min(topic.replication_factor, brokers)
            try:
                await client.create_topic(name, topic.partitions, factor, {**topic.settings, **_TEMPORARY})
            except TopicExists:
                raise BackupRefused(f"topic {name!r} was created by another program meanwhile") from None

    async def _reopen(self, client: BrokerClient, name: str, topic: SavedTopic) -> None:
        """Set temporary settings on a topic that an interrupted restoration created. Raises `BackupRefused`."""
        found = await client.describe_topic(name)
        if found.partitions != topic.partitions:
            raise BackupRefused(
                f"topic {name!r} has {found.partitions} partitions, and {topic.partitions} in the backup: it was not "
                "created by a restoration of this backup"
            )
        await client.alter_topic_config(name, _TEMPORARY)

    async def _restore_part(self, part: RestoredPart) -> None:
        """Restore a partition, and count its records."""
        plan = self._plan
        restore = PartitionRestore(self._client, plan.store, part, plan.options.give_up_after_s, self._add)
        await restore.run(compares=plan.options.compares)
        self._records += restore.digest.records

    def _add(self, offsets: int, size: int) -> None:
        """Add the offsets and bytes of a file to the progress, and report it."""
        self._done += offsets
        self._size += size
        self._on_progress(RestoreProgress(self._done, self._plan.total, self._size))

    async def _apply_settings(self, client: BrokerClient) -> None:
        """Replace the temporary settings by the saved ones."""
        for topic in self._plan.topics:
            await client.alter_topic_config(
                self._plan.name_of(topic), {name: topic.settings.get(name) for name in _TEMPORARY}
            )

    async def _commit_offsets(self, client: BrokerClient, by_group: GroupOffsets) -> None:
        """Commit the offsets of groups in the restored topics."""
        for group, offsets in by_group.items():
            rows = list(offsets.items())
            for begin in range(0, len(rows), _OFFSETS_AT_ONCE):
                await client.groups.commit(group, dict(rows[begin : begin + _OFFSETS_AT_ONCE]))
