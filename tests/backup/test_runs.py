"""Runs of a backup one after another: deleted and compacted records, deleted and hidden topics, and older runs."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from raftlog.backup.backup import run_backup
from raftlog.backup.errors import BackupRefused, StoreUnreachable
from raftlog.backup.restore import RestoreOptions, RestorePlan
from raftlog.backup.state import BackupRun, BackupState, format_time
from raftlog.backup.stores import DirectoryStore
from raftlog.client import BrokerClient
from raftlog.client.answers import Fetched
from raftlog.errors import NoLeader, StorageError, TopicNotAuthorized
from raftlog.records import NewRecord, build_batch
from raftlog.types import OffsetRange, TopicPartition
from raftlog.values.topics import TopicDescription
from raftlog.values.v3 import TopicSummary
from tests.backup.conftest import SMALL_FILES, Serve, Served, create, restore, save
from tests.waiting import until_async


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(str(tmp_path / "backup"))


async def keys_of(served: Served, topic: str) -> set[bytes | None]:
    """Return the keys whose newest record is no tombstone."""
    newest = {key: value for _, _, key, value in await served.content(topic)}
    return {key for key, value in newest.items() if value is not None}


async def compact(served: Served, topic: str, has_ended: Callable[[], Awaitable[bool]]) -> None:
    """Close the segment, and compact until the condition holds."""

    async def look() -> bool:
        await served.broker.parts.housekeeping.run_once()
        return await has_ended()

    await until_async(look)


async def test_a_deleted_key_is_not_restored_after_its_tombstone_was_compacted_away(
    serve: Serve, store: DirectoryStore
) -> None:
    old, new = await serve(), await serve()
    settings = {"segment_bytes": "4096", "min_cleanable_dirty_ratio": "0", "delete_retention_ms": "0"}
    await create(old, "keyed", cleanup_policy="compact", **settings)
    await old.client.produce_batches("keyed", 0, build_batch([NewRecord(b"secret", b"deleted", 1)]))
    await old.produce("keyed", 0, 0, 30)
    await save(old, store)
    await old.client.produce_batches("keyed", 0, build_batch([NewRecord(None, b"deleted", 2)]))
    tombstone = (await old.client.offsets("keyed", 0, linearizable=True)).end - 1

    async def is_removed() -> bool:
        await old.produce("keyed", 0, 30, 90)
        return tombstone not in {offset for offset, *_ in await old.content("keyed")}

    await compact(old, "keyed", is_removed)
    assert b"deleted" not in await keys_of(old, "keyed")
    second = await save(old, store)
    assert second.renewed == 1
    await restore(new, store)
    assert await keys_of(new, "keyed") == await keys_of(old, "keyed")
    pruned = await save(old, store, prunes=True)
    assert pruned.pruned > 0
    await restore(new, store, renamed={"keyed": "again"})
    assert await keys_of(new, "again") == await keys_of(old, "keyed")


async def test_a_compacted_topic_is_saved_incrementally_while_tombstones_are_kept(
    serve: Serve, store: DirectoryStore
) -> None:
    old, new = await serve(), await serve()
    await create(old, "keyed", cleanup_policy="compact")
    await old.produce("keyed", 0, 0, 30)
    await save(old, store)
    await old.produce("keyed", 0, 30, 3)
    second = await save(old, store)
    assert (second.records, second.renewed) == (3, 0)
    await old.client.alter_topic_config("keyed", {"cleanup.policy": "delete"})
    third = await save(old, store)
    assert (third.records, third.renewed) == (33, 1)
    assert (await save(old, store)).renewed == 0
    await restore(new, store)
    assert await new.content("keyed") == await old.content("keyed")


async def test_topics_that_were_deleted_are_restored_from_an_older_run(
    serve: Serve, store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftlog.backup.state._SNAPSHOT_COMMITS", 3)
    old, new = await serve(), await serve()
    await create(old, "orders")
    await create(old, "kept")
    await old.produce("orders", 0, 0, 30)
    before = await old.content("orders")
    await save(old, store)
    first = BackupState.load(store).completed
    assert first is not None
    monkeypatch.setattr("time.time_ns", lambda: (first.time_ms + 10_000) * 1_000_000)
    await old.client.delete_topic("orders")
    for _ in range(4):
        await save(old, store)
    time = format_time(first.time_ms)
    with pytest.raises(BackupRefused, match=f"it has kept; the run of {time} UTC has it: give --before '{time}'"):
        RestorePlan(store, RestoreOptions(topics=("orders",)))
    with pytest.raises(BackupRefused, match=r"has no topic 'none'; it has kept$"):
        RestorePlan(store, RestoreOptions(topics=("none",)))
    with pytest.raises(BackupRefused, match="was completed by"):
        RestorePlan(store, RestoreOptions(until_ms=first.begun_ms - 1))
    done = await restore(new, store, topics=("orders",), until_ms=first.time_ms + 999)
    assert (done.time_ms, done.records) == (first.time_ms, 30)
    assert await new.content("orders") == before
    await save(old, store, prunes=True)
    with pytest.raises(BackupRefused, match="--prune` has removed files of orders/0 since"):
        RestorePlan(store, RestoreOptions(until_ms=first.time_ms))


@pytest.mark.parametrize("is_created_anew", [False, True])
async def test_a_topic_that_is_deleted_during_a_run_is_left_out(
    serve: Serve, store: DirectoryStore, monkeypatch: pytest.MonkeyPatch, is_created_anew: bool
) -> None:
    old, new = await serve(), await serve()
    for name in ("gone", "orders"):
        await create(old, name)
        await old.produce(name, 0, 0, 30)
    await old.client.groups.commit("billing", {TopicPartition(name, 0): 9 for name in ("gone", "orders")})
    real = BrokerClient.fetch_batches

    async def delete_before(self: BrokerClient, topic: str, *place: Any, **options: Any) -> Fetched:
        if topic == "gone" and "gone" in await old.client.topics():
            monkeypatch.setattr(BrokerClient, "fetch_batches", real)
            await old.client.delete_topic("gone")
            if is_created_anew:
                await create(old, "gone")
                await old.produce("gone", 0, 30, 3)
        return await real(self, topic, *place, **options)

    monkeypatch.setattr(BrokerClient, "fetch_batches", delete_before)
    saved = await save(old, store)
    assert (saved.deleted, saved.topics, saved.records) == (["gone"], 1, 30)
    await restore(new, store)
    assert await new.client.topics() == ["orders"]
    assert await new.content("orders") == await old.content("orders")
    assert (await save(old, store)).topics == 1 + is_created_anew


async def test_a_hidden_topic_fails_the_run_in_place_of_its_removal_from_the_backup(
    serve: Serve, store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await serve()
    await create(old, "orders")
    await create(old, "payments")
    await old.produce("payments", 0, 0, 30)
    await save(old, store)
    files = store.list("data")
    real_list, real_describe = BrokerClient.list_topics, BrokerClient.describe_topic

    async def list_visible(self: BrokerClient) -> list[TopicSummary]:
        return [row for row in await real_list(self) if row.name != "payments"]

    async def describe_visible(self: BrokerClient, name: str) -> TopicDescription:
        if name == "payments":
            raise TopicNotAuthorized("not allowed: DESCRIBE topic 'payments'")
        return await real_describe(self, name)

    monkeypatch.setattr(BrokerClient, "list_topics", list_visible)
    await save(old, store, prunes=True)  # a broker that lags behind does not list it
    assert store.list("data") == files
    monkeypatch.undo()
    await save(old, store)
    monkeypatch.setattr(BrokerClient, "list_topics", list_visible)
    monkeypatch.setattr(BrokerClient, "describe_topic", describe_visible)
    with pytest.raises(TopicNotAuthorized, match="payments"):
        await save(old, store, prunes=True)
    assert store.list("data") == files


async def test_partitions_that_cannot_be_read_do_not_stop_the_others(
    serve: Serve, store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = await serve(), await serve()
    await create(old, "orders", 3)
    for partition in range(3):
        await old.produce("orders", partition, 0, 30)
    await save(old, store)
    for partition in range(3):
        await old.produce("orders", partition, 30, 150)
    offsets, fetch = BrokerClient.offsets, BrokerClient.fetch_batches

    async def offsets_but(self: BrokerClient, topic: str, partition: int, **options: Any) -> OffsetRange:
        if partition == 0:
            raise NoLeader("orders/0 has no leader")
        return await offsets(self, topic, partition, **options)

    async def fetch_but(self: BrokerClient, topic: str, partition: int, offset: int, **options: Any) -> Fetched:
        if partition == 1 and offset > 120:
            raise StorageError("the CRC does not match")
        return await fetch(self, topic, partition, offset, **options)

    monkeypatch.setattr(BrokerClient, "offsets", offsets_but)
    monkeypatch.setattr(BrokerClient, "fetch_batches", fetch_but)
    options = SMALL_FILES._replace(give_up_after_s=0.01)
    done = await run_backup(old.client, store, options, lambda _: None)
    assert done.incomplete == {"orders/0": "orders/0 has no leader", "orders/1": "the CRC does not match"}
    monkeypatch.undo()
    restored = await restore(new, store)
    assert restored.notes == [f"orders/{number}: the run could not save it up to its end" for number in (0, 1)]
    for partition, least, most in ((0, 30, 30), (1, 60, 121), (2, 180, 180)):
        content = await new.content("orders", partition)
        assert content == (await old.content("orders", partition))[: len(content)]
        assert least <= len(content) <= most
    assert (await save(old, store)).incomplete == {}
    await restore(new, store, renamed={"orders": "whole"})
    for partition in range(3):
        assert await new.content("whole", partition) == await old.content("orders", partition)
    await create(old, "payments")
    await old.client.delete_topic("orders")
    monkeypatch.setattr(BrokerClient, "offsets", offsets_but)
    with pytest.raises(NoLeader):
        await run_backup(old.client, store, options, lambda _: None)


async def test_a_compacted_partition_that_a_run_could_not_read_is_saved_again(
    serve: Serve, store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await serve()
    await create(old, "keyed", 2, cleanup_policy="compact")
    await old.produce("keyed", 0, 0, 30)
    await old.produce("keyed", 1, 0, 30)
    await save(old, store)
    offsets = BrokerClient.offsets

    async def offsets_but(self: BrokerClient, topic: str, partition: int, **options: Any) -> OffsetRange:
        if partition == 0:
            raise NoLeader("keyed/0 has no leader")
        return await offsets(self, topic, partition, **options)

    monkeypatch.setattr(BrokerClient, "offsets", offsets_but)
    options = SMALL_FILES._replace(give_up_after_s=0.01)
    assert (await run_backup(old.client, store, options, lambda _: None)).renewed == 0
    monkeypatch.undo()
    third = await save(old, store)
    assert (third.renewed, third.records) == (1, 30)
    assert (await save(old, store)).renewed == 0


@pytest.mark.parametrize("lost", [7, 8])
async def test_a_store_may_fail_for_a_while(
    serve: Serve, store: DirectoryStore, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    monkeypatch.setattr("raftlog.backup.backup.HEARTBEAT_S", 0.001)
    old = await serve()
    await create(old, "orders")
    await old.produce("orders", 0, 0, 30)
    beats: list[int] = []
    beat, fetch = BackupRun.write_heartbeat, BrokerClient.fetch_batches

    def beat_later(self: BackupRun) -> None:
        beats.append(1)
        if 1 < len(beats) <= 1 + lost:
            raise StoreUnreachable("503 Slow Down")
        beat(self)

    async def fetch_later(self: BrokerClient, *place: Any, **options: Any) -> Fetched:
        await until_async(lambda: asyncio.sleep(0, len(beats) > 2 + lost))
        return await fetch(self, *place, **options)

    monkeypatch.setattr(BackupRun, "write_heartbeat", beat_later)
    monkeypatch.setattr(BrokerClient, "fetch_batches", fetch_later)
    if lost == 7:
        assert (await save(old, store)).records == 30
        return
    with pytest.raises(StoreUnreachable, match="503"):
        await save(old, store)


async def test_a_place_without_hard_links_is_named(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("os.link", link)
    with pytest.raises(BackupRefused, match="has no hard links"):
        BackupRun.claim(store, "cluster")


async def test_a_damaged_heartbeat_counts_as_one(store: DirectoryStore) -> None:
    run = BackupRun.claim(store, "cluster")
    for content in (b"", b"host", b"\xff\xfe"):
        store.write(f"runs/{run.run}", content)
        pauses: list[float] = []
        run = BackupRun.claim(store, "cluster", pauses.append)
        assert len(pauses) == 1
