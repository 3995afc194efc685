"""Run of a restoration: topics with temporary settings, then batches, log starts, a comparison, settings, and groups.

    end of the log ≤ saved end,   each append begins exactly at the end of the log (`VersionConflict` otherwise)

Until everything is compared, topics keep all records and accept batches of any size; then they get their saved
settings. An interrupted restoration continues at the end of each log. Committed offsets of groups come last.

Settings that decide what is deleted keep the value that was in effect, also where it was a default of the old cluster:
otherwise a shorter default retention would delete restored records at once."""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from raftlog.backup.backup import CLEANUP_SETTINGS, gather_some
from raftlog.backup.errors import BackupRefused
from raftlog.backup.manifest import DATA, BackupCommit, SavedPartition, SavedTopic
from raftlog.backup.partition_restore import PartitionRestore, RestoredPart
from raftlog.backup.state import BackupState, find_run_with_topic, format_time
from raftlog.backup.stores import BackupStore
from raftlog.client import BrokerClient, CommittedOffset
from raftlog.errors import TopicExists, UnknownMember
from raftlog.types import Offset, TopicPartition

_TEMPORARY: Final = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "max.message.bytes": str(256 << 20),
    "min.insync.replicas": "1",
}
"""Settings of topics until all records are compared: nothing is deleted, and no batch is refused."""
_INSYNC: Final = "min.insync.replicas"
_OFFSETS_AT_ONCE: Final = 500

GroupOffsets: TypeAlias = dict[str, dict[TopicPartition, int | CommittedOffset]]
"""Committed offsets by group."""


class RestoreOptions(NamedTuple):
    """Choice of topics by name (all if empty), new names, number of replicas, and limits.

    `keeps_deleted`: also restore saved records that the cluster had deleted by the last run. `continues`: topics may
    exist, from an interrupted restoration. `compares`: compare the restored logs with the files. `until_ms`: restore
    the newest run that was completed by then."""

    topics: tuple[str, ...] = ()
    renamed: Mapping[str, str] = {}
    replication_factor: int | None = None
    keeps_deleted: bool = False
    continues: bool = False
    compares: bool = True
    with_groups: bool = True
    parallel: int = 4
    give_up_after_s: float = 30.0
    until_ms: int | None = None


class RestoreProgress(NamedTuple):
    """Progress: offsets that are done, their total number, and the bytes that were read from the store."""

    done: int
    total: int
    size: int


class RestoreResult(Struct, frozen=True):
    """Result of a restoration, or of a check of the backup alone.

    `notes`: settings that had to differ, and partitions that the run could not save up to their ends."""

    time_ms: int
    topics: int
    partitions: int
    groups: int
    records: int
    bytes: int
    notes: list[str] = []


class RestorePlan:
    """Topics and partitions to restore from a backup."""

    def __init__(self, store: BackupStore, options: RestoreOptions) -> None:
        """Read the backup's manifest. Raises `BackupRefused` and `BackupDamaged`."""
        self.store, self.options = store, options
        self.state = BackupState.load(store, options.until_ms)
        if self.state.last is None and options.until_ms is None:
            raise BackupRefused(f"{store.address} holds no backup")
        if self.state.completed is None:
            by = "" if options.until_ms is None else f" by {format_time(options.until_ms)} UTC"
            remedy = "; run it again" if options.until_ms is None else ""
            raise BackupRefused(f"no run of `raftlog backup` to {store.address} was completed{by}{remedy}")
        self.commit: BackupCommit = self.state.completed
        names = {topic.name for topic in self.commit.topics}
        missing = sorted({*options.topics, *options.renamed} - names)
        if missing:
            raise BackupRefused(self._unknown_text(missing[0], names))
        chosen = {*options.topics} or names
        unused = sorted(options.renamed.keys() - chosen)
        if unused:
            raise BackupRefused(f"topic {unused[0]!r} gets another name, but --topic does not choose it")
        self.topics = [topic for topic in self.commit.topics if topic.name in chosen]
        self._check_names()
        ids = {topic.topic_id: topic for topic in self.topics}
        self.parts = [self._part(ids[row.topic_id], row) for row in self.commit.partitions if row.topic_id in ids]
        self.total = sum(part.end - part.begin for part in self.parts)
        if options.until_ms is not None:
            self._check_files()

    def _unknown_text(self, topic: str, known: Collection[str]) -> str:
        """Return the error text for a topic that the run does not have, with an earlier run that has it."""
        text = f"the backup has no topic {topic!r}; it has {', '.join(sorted(known)) or 'none'}"
        earlier = None if self.options.until_ms is not None else find_run_with_topic(self.store, topic)
        if earlier is None:
            return text
        time = format_time(earlier.time_ms)
        return f"{text}; the run of {time} UTC has it: give --before '{time}'"

    def _check_files(self) -> None:
        """Raise `BackupRefused` if a later run has removed files of an older one."""
        present = set(self.store.list(DATA))
        for part in self.parts:
            if any(file.path not in present for file in part.files):
                raise BackupRefused(
                    f"the run of {format_time(self.commit.time_ms)} UTC cannot be restored: `raftlog backup --prune` "
                    f"has removed files of {part.name} since"
                )

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
        """Return the committed offsets to restore, under the new names of topics.

        An offset above the saved end, in records of a transaction that was open, becomes the end."""
        topics = {topic.name: topic for topic in self.topics}
        ends = {(row.topic_id, row.partition): row.end for row in self.commit.partitions}
        found: GroupOffsets = {}
        for row in self.commit.offsets:
            topic = topics.get(row.topic)
            end = None if topic is None else ends.get((topic.topic_id, row.partition))
            if topic is not None and end is not None:
                place = TopicPartition(self.name_of(topic), row.partition)
                committed = CommittedOffset(Offset(min(row.offset, end)), row.metadata)
                found.setdefault(row.group, {})[place] = committed
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
        self._restored: set[str] = set()
        """Names of topics that an interrupted restoration had completed."""
        self._defaults: dict[str, Mapping[str, str]] = {}
        """Settings of new topics before the temporary ones, which show the defaults of the cluster."""
        self._factors: dict[str, int] = {}
        """Number of replicas by topic."""
        chosen = {topic.name for topic in plan.topics}
        self._notes = [
            f"{name}: the run could not save it up to its end"
            for name in plan.commit.incomplete
            if name.rpartition("/")[0] in chosen
        ]

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
            plan.commit.time_ms,
            len(plan.topics),
            len(plan.parts),
            len(offsets),
            self._records,
            self._size,
            self._notes,
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
        new = [(name, topic) for name, topic in names.items() if name not in existing]
        for only_checks in (True, False):
            for name, topic in new:
                self._factors[name] = options.replication_factor or min(topic.replication_factor, brokers)
                await self._create_topic(client, name, topic, only_checks=only_checks)
            for name in taken:
                await self._reopen(client, name, names[name], only_checks=only_checks)

    async def _create_topic(self, client: BrokerClient, name: str, topic: SavedTopic, *, only_checks: bool) -> None:
        """Create a topic, then give it the temporary settings. With `only_checks` raise the error of the creation."""
        settings, factor = self._settings_of(name, topic), self._factors[name]
        try:
            await client.create_topic(name, topic.partitions, factor, settings, validate_only=only_checks)
            if only_checks:
                return
        except TopicExists:
            raise BackupRefused(f"topic {name!r} was created by another program meanwhile") from None
        self._defaults[name] = (await client.describe_topic(name)).configs
        await client.alter_topic_config(name, _TEMPORARY)

    def _settings_of(self, name: str, topic: SavedTopic) -> dict[str, str]:
        """Return the saved settings, with `min.insync.replicas` up to the number of replicas."""
        settings, factor = dict(topic.settings), self._factors[name]
        if int(settings.get(_INSYNC, 1)) > factor:
            settings[_INSYNC] = str(factor)
        return settings

    async def _reopen(self, client: BrokerClient, name: str, topic: SavedTopic, *, only_checks: bool) -> None:
        """Set temporary settings on a topic that an interrupted restoration created, unless `only_checks`.

        A topic without these settings must be empty, or complete. Raises `BackupRefused`."""
        found = await client.describe_topic(name)
        if found.partitions != topic.partitions:
            raise BackupRefused(
                f"topic {name!r} has {found.partitions} partitions, and {topic.partitions} in the backup: it was not "
                "created by a restoration of this backup"
            )
        self._factors[name] = found.replication_factor
        if any(found.configs.get(key) != value for key, value in _TEMPORARY.items()):
            parts = [part for part in self._plan.parts if part.topic == name]
            calls = [client.offsets(name, part.partition, linearizable=True) for part in parts]
            ends = [each.end for each in await gather_some(self._plan.options.parallel, calls)]
            if any(ends) and ends == [part.end for part in parts]:
                self._restored.add(name)
                return
            if any(ends):
                raise BackupRefused(
                    f"topic {name!r} has records, and was not created by a restoration: it may hold other records than "
                    "the backup; delete it, or restore under another name (--rename)"
                )
            overrides = await client.topic_overrides(name)
            self._defaults[name] = {key: value for key, value in found.configs.items() if key not in overrides}
        if not only_checks:
            await client.alter_topic_config(name, _TEMPORARY)

    async def _restore_part(self, part: RestoredPart) -> None:
        """Restore a partition, and count its records."""
        plan = self._plan
        if part.topic in self._restored:
            self._add(part.end - part.begin, 0)
            return
        restore = PartitionRestore(self._client, plan.store, part, plan.options.give_up_after_s, self._add)
        await restore.run(compares=plan.options.compares)
        self._records += restore.digest.records

    def _add(self, offsets: int, size: int) -> None:
        """Add the offsets and bytes of a file to the progress, and report it."""
        self._done += offsets
        self._size += size
        self._on_progress(RestoreProgress(self._done, self._plan.total, self._size))

    async def _apply_settings(self, client: BrokerClient) -> None:
        """Replace the temporary settings by the saved ones, and by the defaults that were in effect."""
        for topic in self._plan.topics:
            name = self._plan.name_of(topic)
            if name in self._restored:
                continue
            final = self._settings_of(name, topic)
            if final.get(_INSYNC) != topic.settings.get(_INSYNC):
                self._notes.append(f"{name}: {_INSYNC}={final[_INSYNC]}, since it has no more replicas")
            defaults = self._defaults.get(name, {})
            for key in CLEANUP_SETTINGS:
                value = topic.defaults.get(key)
                if value is not None and value != defaults.get(key):
                    final[key] = value
                    self._notes.append(f"{name}: {key}={value}, which was the default of the saved cluster")
            await client.alter_topic_config(name, {key: final.get(key) for key in (*_TEMPORARY, *final)})

    async def _commit_offsets(self, client: BrokerClient, by_group: GroupOffsets) -> None:
        """Commit the offsets of groups in the restored topics. Raises `BackupRefused` for groups that have members."""
        refused = []
        for group, offsets in by_group.items():
            rows = list(offsets.items())
            try:
                for begin in range(0, len(rows), _OFFSETS_AT_ONCE):
                    await client.groups.commit(group, dict(rows[begin : begin + _OFFSETS_AT_ONCE]))
            except UnknownMember:
                refused.append(group)
        if refused:
            raise BackupRefused(
                f"all records are restored, but not the offsets of the groups {', '.join(refused)}, which have "
                "members: stop these, and run the command again with --continue, or leave groups out with --no-groups"
            )
