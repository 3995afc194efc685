"""Restorations into clusters that differ: other topics of the name, fewer replicas, other defaults, active groups."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from raftlog.backup.errors import BackupRefused
from raftlog.backup.manifest import BackupCommit, seal
from raftlog.backup.state import BackupState
from raftlog.backup.stores import DirectoryStore
from raftlog.client import BrokerClient
from raftlog.errors import InvalidArgument
from raftlog.types import TopicPartition
from tests.backup.conftest import TEMPORARY, Serve, create, restore, save


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(str(tmp_path / "backup"))


def change_topic(store: DirectoryStore, **fields: Any) -> None:
    """Replace fields of the first topic in the last commit."""
    commit = BackupState.load(store).completed
    assert commit is not None
    first, *others = commit.topics
    changed: BackupCommit = structs.replace(commit, topics=[structs.replace(first, **fields), *others])
    store.write(store.list("commits")[-1], seal(changed))


async def test_a_topic_in_use_is_not_changed_by_a_restoration(serve: Serve, store: DirectoryStore) -> None:
    old, new = await serve(), await serve()
    await create(old, "orders")
    await create(old, "payments")
    await old.produce("orders", 0, 0, 30)
    await save(old, store)
    await create(new, "orders", retention_ms="1000000")
    await new.produce("orders", 0, 500, 3)
    before = await new.content("orders")
    with pytest.raises(BackupRefused, match="was not created by a restoration"):
        await restore(new, store, continues=True)
    assert await new.client.topic_overrides("orders") == {"retention.ms"}
    assert await new.content("orders") == before
    assert await new.client.topics() == ["orders"]


async def test_a_restoration_that_failed_after_the_records_continues_with_the_groups(
    serve: Serve, store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = await serve(), await serve()
    await create(old, "orders", 2, retention_ms="86400000000")
    await old.produce("orders", 0, 0, 30)
    for group in ("billing", "mail"):
        await old.client.groups.commit(group, {TopicPartition("orders", 0): 12})
    await save(old, store)
    joined = await new.client.groups.join("billing", {"range": b""}, timeout_ms=10_000)
    with pytest.raises(BackupRefused, match=r"offsets of the groups billing, which have members.*--continue"):
        await restore(new, store)
    assert await new.client.groups.committed("mail") == await old.client.groups.committed("mail")
    await new.client.groups.leave("billing", [(joined.member_id, None)])
    appended: list[str] = []
    real = BrokerClient.restore_batches

    async def append(self: BrokerClient, topic: str, *place: Any, **options: Any) -> Any:
        appended.append(topic)
        return await real(self, topic, *place, **options)

    monkeypatch.setattr(BrokerClient, "restore_batches", append)
    await restore(new, store, continues=True)
    assert appended == []
    assert await new.client.groups.committed("billing") == await old.client.groups.committed("billing")
    assert await new.content("orders") == await old.content("orders")
    assert await new.client.topic_overrides("orders") == {"retention.ms"}


async def test_empty_topics_and_topics_with_temporary_settings_are_continued(
    serve: Serve, store: DirectoryStore
) -> None:
    old, new = await serve(), await serve()
    for name in ("orders", "payments"):
        await create(old, name, flush_messages="5")
        await old.produce(name, 0, 0, 30)
    await save(old, store)
    await create(new, "orders", segment_bytes="50000", retention_ms="1000000000")
    await create(new, "payments", **TEMPORARY)
    done = await restore(new, store, continues=True)
    for name in ("orders", "payments"):
        assert await new.content(name) == await old.content(name)
    assert await new.client.topic_overrides("orders") == {"segment.bytes", "flush.messages", "retention.ms"}
    assert (await new.client.describe_topic("orders")).configs["retention.ms"] == "604800000"
    assert len([text for text in done.notes if text.startswith("orders")]) == 1
    restored = {"cleanup.policy", "retention.ms", "retention.bytes", "flush.messages"}
    assert await new.client.topic_overrides("payments") == restored


async def test_offsets_above_the_saved_end_become_the_end(serve: Serve, store: DirectoryStore) -> None:
    old, new = await serve(), await serve()
    await create(old, "orders")
    await old.produce("orders", 0, 0, 30)
    await old.client.groups.commit("billing", {TopicPartition("orders", 0): 45})
    await save(old, store)
    await restore(new, store)
    assert (await new.client.groups.committed("billing"))[TopicPartition("orders", 0)].offset == 30


async def test_fewer_replicas_lower_the_number_of_in_sync_replicas(serve: Serve, store: DirectoryStore) -> None:
    old, new = await serve(), await serve()
    await create(old, "orders")
    await old.produce("orders", 0, 0, 30)
    await save(old, store)
    change_topic(store, settings={"min.insync.replicas": "2"}, replication_factor=3)
    done = await restore(new, store)
    assert done.notes == ["orders: min.insync.replicas=1, since it has no more replicas"]
    assert (await new.client.describe_topic("orders")).configs["min.insync.replicas"] == "1"
    await new.produce("orders", 0, 30, 3)


async def test_a_longer_default_retention_becomes_a_setting_of_the_topic(serve: Serve, store: DirectoryStore) -> None:
    old, new = await serve(), await serve()
    await create(old, "orders")
    await old.produce("orders", 0, 0, 30)
    await save(old, store)
    change_topic(store, defaults={"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"})
    done = await restore(new, store)
    assert done.notes == ["orders: retention.ms=-1, which was the default of the saved cluster"]
    assert await new.client.topic_overrides("orders") == {"retention.ms"}


async def test_nothing_is_created_unless_all_topics_can_be(serve: Serve, store: DirectoryStore) -> None:
    old, new = await serve(), await serve()
    for name in ("orders", "payments"):
        await create(old, name)
    await save(old, store)
    with pytest.raises(InvalidArgument, match="pay/ments"):
        await restore(new, store, renamed={"payments": "pay/ments"})
    assert await new.client.topics() == []
