"""Topics and group offsets survive any stop, watermarks only rise, and the log of them stays small."""

import asyncio
from random import Random

import pytest

from raftlog.errors import CorruptBatch, DeadlineExceeded, FormatError
from raftlog.partitions.catalogue import Catalogue
from raftlog.partitions.catalogue_state import (
    CatalogueState,
    Replay,
    TopicEntry,
    offsets_committed,
    topic_altered,
    topic_deleted,
)
from raftlog.partitions.deadline import deadline_in
from raftlog.types import Offset, TopicPartition

PATH = "/data/catalogue"
TOPIC = TopicEntry("orders", "id-1", ("g0", "g1"), {"retention.ms": "1000"}, 42)
OTHER = TopicEntry("other", "id-2", ("g2",), {}, 43)
TOPIC_IDS = {"orders": "id-1", "other": "id-2"}


def commit_of(group, offset, topic="orders", partition=0):
    return offsets_committed(group, {TopicPartition(topic, partition): Offset(offset)}, TOPIC_IDS)


def watermark(catalogue, group, topic="orders", partition=0):
    return catalogue.state.groups[group][TopicPartition(topic, partition)]


def open_catalogue(disk, growth=1 << 20):
    return Catalogue.open(disk, PATH, growth_bytes_max=growth)


def soon():
    return deadline_in(10_000)


async def test_everything_is_there_after_reopening(disk):
    catalogue = open_catalogue(disk)
    await catalogue.commit(TOPIC.event(), soon())
    await catalogue.commit(topic_altered("orders", {"retention.ms": "5"}), soon())
    await catalogue.commit(commit_of("g", 7), soon())
    before = catalogue.state
    await catalogue.close()
    again = open_catalogue(disk)
    assert again.state == before
    assert again.state.topics["orders"].overrides == {"retention.ms": "5"}
    await again.close()


async def test_a_commit_on_its_way_while_its_topic_is_deleted_applies_to_no_later_one(disk):
    catalogue = open_catalogue(disk)
    await catalogue.commit(TOPIC.event(), soon())
    await catalogue.commit(topic_deleted("orders"), soon())
    await catalogue.commit(commit_of("g", 7), soon())
    await catalogue.commit(TopicEntry("orders", "id-3", ("g3",), {}, 44).event(), soon())
    await catalogue.commit(commit_of("g", 8), soon())
    assert catalogue.state.groups == {}
    await catalogue.close()
    again = open_catalogue(disk)
    assert again.state.groups == {}
    await again.close()


async def test_a_lower_commit_never_moves_a_watermark_back(disk):
    catalogue = open_catalogue(disk)
    await catalogue.commit(TOPIC.event(), soon())
    for offset in (5, 9, 3):
        await catalogue.commit(commit_of("g", offset), soon())
    assert watermark(catalogue, "g") == 9
    await catalogue.close()
    again = open_catalogue(disk)
    assert watermark(again, "g") == 9
    await again.close()


async def test_deleting_a_topic_forgets_the_offsets_in_it(disk):
    catalogue = open_catalogue(disk)
    await catalogue.commit(TOPIC.event(), soon())
    await catalogue.commit(commit_of("g", 7), soon())
    await catalogue.commit(OTHER.event(), soon())
    await catalogue.commit(commit_of("g", 2, "other"), soon())
    await catalogue.commit(topic_deleted("orders"), soon())
    assert list(catalogue.state.topics) == ["other"]
    assert catalogue.state.groups == {"g": {TopicPartition("other", 0): 2}}
    await catalogue.close()


async def test_many_commits_share_a_sync(disk):
    catalogue = open_catalogue(disk)
    await catalogue.commit(TOPIC.event(), soon())
    before = disk.sync_count
    await asyncio.gather(*[catalogue.commit(commit_of(f"g{n}", n), soon()) for n in range(100)])
    assert disk.sync_count - before <= 3
    assert len(catalogue.state.groups) == 100
    await catalogue.close()


async def test_the_log_stays_small_however_much_is_committed(disk):
    growth = 64 * 1024
    catalogue = open_catalogue(disk, growth)
    await catalogue.commit(TOPIC.event(), soon())
    for round_ in range(60):
        commits = [catalogue.commit(commit_of(f"group-{n}", round_ * 10 + n), soon()) for n in range(50)]
        await asyncio.gather(*commits)
    before = catalogue.state
    # One segment of 1 MiB can hold what precedes the snapshot.
    assert catalogue.size_bytes < (1 << 20) + 4 * growth
    await catalogue.close()
    again = open_catalogue(disk, growth)
    assert again.state == before
    await again.close()


async def test_an_event_applies_although_its_caller_ran_out_of_time(disk):
    catalogue = open_catalogue(disk)
    await catalogue.commit(TOPIC.event(), soon())
    disk.is_held = True
    with pytest.raises(DeadlineExceeded) as caught:
        await catalogue.commit(commit_of("g", 7), deadline_in(1))
    assert caught.value.outcome == "unknown"
    assert catalogue.state.groups == {}
    disk.let_go()
    await catalogue.commit(commit_of("h", 1), soon())
    assert watermark(catalogue, "g") == 7
    await catalogue.close()


@pytest.mark.parametrize("seed", range(12))
async def test_what_was_answered_survives_power_loss_at_any_moment(disk, seed):
    random = Random(seed)
    disk.random = Random(seed)
    answered: dict[str, int] = {}
    sent: dict[str, int] = {}
    first = open_catalogue(disk)
    await first.commit(TOPIC.event(), soon())
    await first.close()
    for _ in range(4):
        catalogue = open_catalogue(disk, growth=16 * 1024)

        async def commit(group, offset, catalogue=catalogue):
            sent[group] = max(sent.get(group, -1), offset)
            await catalogue.commit(commit_of(group, offset), soon())
            answered[group] = max(answered.get(group, -1), offset)

        calls = [
            asyncio.ensure_future(commit(f"g{random.randrange(5)}", random.randrange(10_000)))
            for _ in range(random.randrange(1, 300))
        ]
        for _ in range(random.randrange(30)):
            await asyncio.sleep(0)
        disk.power_loss()
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        recovered = open_catalogue(disk, growth=16 * 1024)
        for group, offset in answered.items():
            assert watermark(recovered, group) >= offset
        for group, offsets in recovered.state.groups.items():
            assert all(offset <= sent[group] for offset in offsets.values())
            answered[group] = max(offsets.values())
        await recovered.close()


async def test_a_damaged_catalogue_is_not_opened(disk):
    catalogue = open_catalogue(disk)
    await catalogue.commit(TOPIC.event(), soon())
    for n in range(10):
        await catalogue.commit(commit_of("g", n), soon())
    await catalogue.close()
    log = f"{PATH}/00000000000000000000.log"
    disk.flip_bit(log, len(disk.snapshot()[log]) // 2, 3)
    with pytest.raises((CorruptBatch, FormatError)):
        open_catalogue(disk)


def test_a_snapshot_without_its_end_counts_as_absent():
    state = CatalogueState()
    replay = Replay(is_from_start=True)
    for event in (TOPIC.event(), commit_of("g", 7)):
        state.apply(event)
        replay.apply(event)
    for event in list(state.snapshot())[:-1]:
        replay.apply(event)
    replay.apply(commit_of("h", 1))
    assert set(replay.result().groups) == {"g", "h"}


def test_a_log_that_begins_in_the_middle_needs_a_whole_snapshot():
    state = CatalogueState()
    state.apply(TOPIC.event())
    replay = Replay(is_from_start=False)
    replay.apply(commit_of("lost", 1))
    with pytest.raises(FormatError):
        replay.result()
    for event in state.snapshot():
        replay.apply(event)
    assert replay.result() == state
