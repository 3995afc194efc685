"""Backups of real brokers in directories, and their restoration: same offsets, records, settings and groups."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from raftlog.backup.backup import BackupProgress, run_backup
from raftlog.backup.errors import BackupDamaged, BackupRefused, BackupTaken
from raftlog.backup.manifest import BackupCommit, seal, unseal
from raftlog.backup.restore import RestoreOptions, RestorePlan, RestoreProgress, check_backup
from raftlog.backup.state import BackupRun, BackupState
from raftlog.backup.stores import DirectoryStore
from raftlog.client import BrokerClient, CommittedOffset
from raftlog.client.answers import Fetched
from raftlog.errors import OutcomeUnknown, Unavailable
from raftlog.types import Buffer, Offset, TopicPartition
from tests.backup.conftest import SMALL_FILES, TEMPORARY, Serve, create, restore, save
from tests.waiting import until_async


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(str(tmp_path / "backup"))


async def test_offsets_records_settings_and_groups_are_restored(serve: Serve, store: DirectoryStore) -> None:
    old, new = await serve(), await serve()
    await create(old, "orders", 3, retention_ms="86400000000", max_message_bytes="70000", segment_bytes="20000")
    await create(old, "empty", 2)
    await create(old, "trimmed")
    for partition in range(3):
        await old.produce("orders", partition, 0, 100 + partition)
    await old.produce("trimmed", 0, 0, 30)
    await old.client.delete_records("orders", 1, 50)
    await old.client.delete_records("trimmed", 0, 30)
    places = {TopicPartition("orders", 0): CommittedOffset(Offset(40), "by hand"), TopicPartition("trimmed", 0): 30}
    await old.client.groups.commit("billing", places)
    saved = await save(old, store)
    assert (saved.topics, saved.partitions, saved.groups, saved.lost) == (3, 6, 1, [])
    progress: list[RestoreProgress] = []
    checked = await check_backup(RestorePlan(store, RestoreOptions()), progress.append)
    assert progress[-1].done == progress[-1].total == 100 + 51 + 102
    restored = await restore(new, store)
    assert (checked.records, checked.groups) == (restored.records, restored.groups) == (saved.records, 1)
    for partition in range(3):
        content = await old.content("orders", partition)
        assert content
        assert await new.content("orders", partition) == content
        bounds = await old.client.offsets("orders", partition)
        assert await new.client.offsets("orders", partition, linearizable=True) == bounds
    assert await new.client.offsets("trimmed", 0) == (30, 30)
    assert await new.client.offsets("empty", 1) == (0, 0)
    for name in ("orders", "empty", "trimmed"):
        assert await new.client.topic_overrides(name) == await old.client.topic_overrides(name)
        assert (await new.client.describe_topic(name)).configs == (await old.client.describe_topic(name)).configs
    committed = await new.client.groups.committed("billing")
    assert committed == await old.client.groups.committed("billing")
    await new.produce("orders", 1, 200, 3)
    assert (await new.client.offsets("orders", 1, linearizable=True)).end == 104


async def test_later_runs_save_only_what_is_new(serve: Serve, store: DirectoryStore) -> None:
    old, new = await serve(), await serve()
    await create(old, "orders", 2)
    await old.produce("orders", 0, 0, 60)
    assert (await save(old, store)).records == 60
    nothing = await save(old, store)
    assert (nothing.records, nothing.files) == (0, 0)
    await old.produce("orders", 0, 60, 30)
    await old.produce("orders", 1, 0, 9)
    await create(old, "later")
    more = await save(old, store)
    assert (more.records, more.topics) == (39, 2)
    await restore(new, store)
    assert await new.content("orders") == await old.content("orders")
    assert await new.content("orders", 1) == await old.content("orders", 1)


async def test_gaps_of_compaction_stay_gaps(serve: Serve, store: DirectoryStore, tmp_path: Path) -> None:
    """Restored logs have the same offsets as compacted ones; a second backup of a restored log is restored alike."""
    old, new, third = await serve(), await serve(), await serve()
    await create(old, "keyed", cleanup_policy="compact", segment_bytes="4096", min_cleanable_dirty_ratio="0")
    await old.produce("keyed", 0, 0, 90)

    async def is_compacted() -> bool:
        await old.broker.parts.housekeeping.run_once()
        return len(await old.content("keyed")) < 90

    await until_async(is_compacted)
    await save(old, store)
    await old.produce("keyed", 0, 90, 6)
    await save(old, store)
    await restore(new, store, renamed={"keyed": "copy"})
    content = await old.content("keyed")
    restored = await new.content("copy")
    assert set(content) <= set(restored)
    assert len(restored) < 96
    assert (await new.client.describe_topic("copy")).configs["cleanup.policy"] == "compact"
    assert (await new.client.offsets("copy", 0, linearizable=True)).end == 96
    again = DirectoryStore(str(tmp_path / "again"))
    await save(new, again)
    await restore(third, again)
    assert {each[2]: each for each in await third.content("copy")} == {each[2]: each for each in content}


async def test_records_that_were_deleted_later_are_restored_only_on_demand(serve: Serve, store: DirectoryStore) -> None:
    old, new = await serve(), await serve()
    await create(old, "orders")
    await old.produce("orders", 0, 0, 300)
    before = await old.content("orders")
    await save(old, store)
    await old.client.delete_records("orders", 0, 250)
    await save(old, store)
    await restore(new, store)
    assert await new.content("orders") == await old.content("orders")
    await restore(new, store, renamed={"orders": "all"}, keeps_deleted=True)
    assert await new.content("all") == before
    pruned = await save(old, store, prunes=True)
    assert pruned.pruned > 0
    await restore(new, store, renamed={"orders": "kept"})
    assert await new.content("kept") == await old.content("orders")


async def test_records_deleted_before_they_were_saved_are_reported(serve: Serve, store: DirectoryStore) -> None:
    old, new = await serve(), await serve()
    await create(old, "orders")
    await old.produce("orders", 0, 0, 30)
    await save(old, store)
    await old.produce("orders", 0, 30, 30)
    await old.client.delete_records("orders", 0, 45)
    lost = (await save(old, store)).lost
    assert [(row.first, row.end) for row in lost] == [(30, 45)]
    await restore(new, store, keeps_deleted=True)
    offsets = [each[0] for each in await new.content("orders")]
    assert offsets == [*range(30), *range(45, 60)]


async def test_an_interrupted_restoration_continues(serve: Serve, store: DirectoryStore) -> None:
    old, new = await serve(), await serve()
    await create(old, "orders", 2)
    await old.produce("orders", 0, 0, 300)
    await old.produce("orders", 1, 0, 300)
    await save(old, store)
    plan = RestorePlan(store, RestoreOptions())
    file = plan.parts[1].files[-1]
    data = store.read(file.path)
    assert data is not None
    store.write(file.path, data[:-1])
    with pytest.raises(BackupDamaged, match="checksum does not match"):
        await restore(new, store)
    store.write(file.path, data)
    with pytest.raises(BackupRefused, match="exists"):
        await restore(new, store)
    await restore(new, store, continues=True)
    for partition in range(2):
        assert await new.content("orders", partition) == await old.content("orders", partition)


async def test_other_records_in_the_topic_are_noticed(serve: Serve, store: DirectoryStore) -> None:
    old, new = await serve(), await serve()
    await create(old, "orders")
    await old.produce("orders", 0, 0, 6)
    await save(old, store)
    await create(new, "orders", **TEMPORARY)
    await new.produce("orders", 0, 3, 3)
    with pytest.raises(BackupRefused, match="has other records than the backup"):
        await restore(new, store, continues=True)
    await new.produce("orders", 0, 0, 30)
    with pytest.raises(BackupRefused, match="ends at offset 36, and at 6 in the backup"):
        await restore(new, store, continues=True)


async def test_a_cluster_that_lost_saved_records_is_noticed(serve: Serve, store: DirectoryStore) -> None:
    old = await serve()
    await create(old, "orders")
    await old.produce("orders", 0, 0, 6)
    await save(old, store)
    state = BackupState.load(store)
    (file,) = next(iter(state.files.values()))
    assert state.completed is not None
    last = store.list("commits")[-1]
    for change, reason in ((BackupCommit, "other records at offset 3"), (None, "ends at offset 6")):
        wrong = replace_file(state.completed, last_crc=1) if change else replace_file(state.completed, end=9)
        store.write(last, seal(wrong))
        with pytest.raises(BackupRefused, match=reason):
            await save(old, store)
        for path in store.list("commits")[-1:]:
            store.delete(path)
    assert file.end == 6


def replace_file(commit: BackupCommit, **fields: int) -> BackupCommit:
    """Return a commit whose first file has other fields."""
    return structs.replace(commit, added=[structs.replace(commit.added[0], **fields)])


async def test_a_second_run_at_the_same_time_is_refused(serve: Serve, store: DirectoryStore) -> None:
    old = await serve()
    await create(old, "orders")
    await old.produce("orders", 0, 0, 300)
    seconds: list[type[BaseException]] = []

    def on_progress(_: BackupProgress) -> None:
        if not seconds:
            beats = iter(range(3))
            run = "runs/" + BackupState.load(store).last.run  # type: ignore[union-attr]

            def pause(_: float) -> None:
                store.write(run, b"host 1 %d" % next(beats))

            with pytest.raises(BackupTaken) as refused:
                BackupRun.claim(store, BackupState.load(store).last.cluster_id, pause)  # type: ignore[union-attr]
            seconds.append(refused.type)

    await run_backup(old.client, store, SMALL_FILES, on_progress)
    assert seconds == [BackupTaken]


async def test_a_run_that_lost_its_claim_commits_nothing(serve: Serve, store: DirectoryStore) -> None:
    old = await serve()
    cluster = await old.client.cluster_id()
    first = BackupRun.claim(store, cluster)
    first.end()
    second = BackupRun.claim(store, cluster)
    with pytest.raises(BackupTaken, match="has claimed"):
        first.commit("completed")
    second.commit("completed")
    assert BackupState.load(store).last == second.state.last


async def test_files_of_an_interrupted_run_are_used_or_deleted(serve: Serve, store: DirectoryStore) -> None:
    old = await serve()
    await create(old, "orders")
    await old.produce("orders", 0, 0, 300)
    cluster = await old.client.cluster_id()
    run = BackupRun.claim(store, cluster)
    run.end()
    left = run.path_of((cluster, 0), 0, 9)
    store.write(left, b"left over")
    foreign = f"data/{cluster}/0/notes.txt"
    store.write(foreign, b"mine")
    await save(old, store)
    assert left not in store.list("data")
    orphan = f"data/{cluster}/0/{0:020d}-{9:020d}-deadbeef.batches"
    store.write(orphan, b"of a run that ended before it deleted the file")
    assert (await save(old, store, prunes=True)).pruned == 1
    assert orphan not in store.list("data")
    assert foreign in store.list("data")
    with pytest.raises(BackupRefused, match="is the backup of cluster"):
        BackupRun.claim(store, "another")


async def test_places_without_a_backup_are_refused(serve: Serve, tmp_path: Path) -> None:
    old = await serve()
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.txt").write_text("mine")
    with pytest.raises(BackupRefused, match="is no backup, and not empty"):
        await save(old, DirectoryStore(str(full)))
    for path in (tmp_path / "none", full):
        with pytest.raises(BackupRefused, match="holds no backup"):
            RestorePlan(DirectoryStore(str(path)), RestoreOptions())
    run = BackupRun.claim(DirectoryStore(str(tmp_path / "begun")), "cluster")
    run.end()
    with pytest.raises(BackupRefused, match="was completed"):
        RestorePlan(run.store, RestoreOptions())


async def test_damage_is_found_without_a_cluster(serve: Serve, store: DirectoryStore) -> None:
    old = await serve()
    await create(old, "orders")
    await old.produce("orders", 0, 0, 300)
    await save(old, store)
    plan = RestorePlan(store, RestoreOptions())
    victim = plan.parts[0].files[1].path
    data = store.read(victim)
    assert data is not None
    for damaged in (data[:100] + bytes([data[100] ^ 1]) + data[101:], data[:-1], b""):
        store.write(victim, damaged)
        with pytest.raises(BackupDamaged, match="is damaged"):
            await check_backup(plan, lambda _: None)
    store.delete(victim)
    with pytest.raises(BackupDamaged, match="lacks"):
        await check_backup(plan, lambda _: None)
    commit = store.list("commits")[-1]
    sealed = store.read(commit)
    assert sealed is not None
    for wrong, reason in (
        (sealed.replace(b'"format":1', b'"format":2'), "checksum"),
        (seal(unseal_newer(sealed)), "use a newer raftlog$"),
        (b"", "checksum does not match; without this newest commit"),
    ):
        store.write(commit, wrong)
        with pytest.raises(BackupDamaged, match=reason):
            RestorePlan(store, RestoreOptions())


def unseal_newer(sealed: bytes) -> BackupCommit:
    return structs.replace(unseal(BackupCommit, "commit", sealed), format=2)


async def test_unknown_topics_and_names_used_twice_are_refused(serve: Serve, store: DirectoryStore) -> None:
    old = await serve()
    await create(old, "orders")
    await create(old, "payments")
    await save(old, store)
    for options, reason in (
        (RestoreOptions(topics=("order",)), "has no topic 'order'; it has orders, payments"),
        (RestoreOptions(renamed={"orders": "payments"}), "two topics would be restored as 'payments'"),
        (RestoreOptions(("orders",), {"payments": "paid"}), "'payments' gets another name, but --topic does not"),
    ):
        with pytest.raises(BackupRefused, match=reason):
            RestorePlan(store, options)


async def test_snapshots_hold_the_state_of_all_commits(serve: Serve, store: DirectoryStore, monkeypatch) -> None:
    monkeypatch.setattr("raftlog.backup.state._SNAPSHOT_COMMITS", 3)
    old, new = await serve(), await serve()
    await create(old, "orders")
    for number in range(4):
        await old.produce("orders", 0, 9 * number, 9)
        await save(old, store)
    snapshots = store.list("snapshots")
    assert snapshots
    for path in store.list("commits")[:3]:
        store.delete(path)
    await restore(new, store)
    assert await new.content("orders") == await old.content("orders")
    for path in snapshots:
        store.write(path, b"damaged")
    with pytest.raises(BackupDamaged, match="lacks commits"):
        BackupState.load(store)


async def test_lost_answers_and_outages_store_each_batch_once(
    serve: Serve, store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends whose answers are lost, before or after they happened, and fetches without a leader, are repeated."""
    old, new = await serve(), await serve()
    await create(old, "orders")
    await old.produce("orders", 0, 0, 300)
    monkeypatch.setattr("raftlog.backup.partition_restore._CALL_BYTES", 2_000)
    real, calls = BrokerClient.restore_batches, count()

    async def append(self: BrokerClient, topic: str, partition: int, body: Buffer, **options: Any) -> Offset:
        number = next(calls)
        if number % 4 == 1:
            raise OutcomeUnknown("lost on the way there")
        end = await real(self, topic, partition, body, **options)
        if number % 4 == 3:
            raise OutcomeUnknown("lost on the way back")
        return end

    fetch, fetches = BrokerClient.fetch_batches, count()

    async def fetch_sometimes(self: BrokerClient, *place: Any, **options: Any) -> Fetched:
        if next(fetches) % 3 == 1:
            raise Unavailable("no leader")
        return await fetch(self, *place, **options)

    monkeypatch.setattr(BrokerClient, "fetch_batches", fetch_sometimes)
    await save(old, store)
    monkeypatch.setattr(BrokerClient, "restore_batches", append)
    await restore(new, store)
    assert next(calls) > 8
    monkeypatch.undo()
    assert await new.content("orders") == await old.content("orders")


@pytest.mark.parametrize(
    ("records", "reason"), [(6, "another program writes to the topic"), (3, "has other records than the backup")]
)
async def test_another_writer_during_a_restoration_is_noticed(
    serve: Serve, store: DirectoryStore, monkeypatch: pytest.MonkeyPatch, records: int, reason: str
) -> None:
    """At once, or, if its records end where the next batch would, by the comparison."""
    old, new = await serve(), await serve()
    await create(old, "orders")
    await old.produce("orders", 0, 0, 60)
    await save(old, store)
    monkeypatch.setattr("raftlog.backup.partition_restore._CALL_BYTES", 1_000)
    real = BrokerClient.restore_batches

    async def append_and_disturb(self: BrokerClient, topic: str, *place: Any, **options: Any) -> Offset:
        end = await real(self, topic, *place, **options)
        await new.produce(topic, 0, 0, records)
        return end

    monkeypatch.setattr(BrokerClient, "restore_batches", append_and_disturb)
    with pytest.raises(BackupRefused, match=reason):
        await restore(new, store, give_up_after_s=5.0)
