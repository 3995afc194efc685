"""A broker that created a cluster of its own, and whose seeds belong to another cluster."""

import asyncio
import logging
from pathlib import Path

import pytest

from raftlog.errors import IdentityRefused
from raftlog.partitions.controller import foreign_seeds
from tests.controller.brokers import brokers, soon
from tests.waiting import until

ALONE: tuple[int, ...] = ()


def list_events(caplog: pytest.LogCaptureFixture, name: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage() == name]


async def test_a_broker_without_seeds_logs_that_it_creates_a_cluster(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with brokers(tmp_path, [1], seeds=ALONE) as cluster:
        await cluster.start()
        cluster_id = cluster.running[1].metadata.cluster_id
        [founded] = list_events(caplog, "cluster_founded")
        assert (founded.node, founded.cluster_id, founded.seeds) == (1, cluster_id, 1)  # type: ignore[attr-defined]
        assert f"founds cluster {cluster_id} of itself alone" in caplog.text
        assert "start it with --seeds" in caplog.text
        await cluster.stop()
        caplog.clear()
        await cluster.start()
        assert list_events(caplog, "cluster_founded") == []
        assert "alone" not in caplog.text


async def test_without_topics_the_broker_is_not_ready_and_repeats_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_seeds, "REPEAT_MS", 1)
    async with brokers(tmp_path, [1, 2], seeds=ALONE) as cluster:
        await cluster.start()
        ids = [cluster.running[number].metadata.cluster_id for number in (1, 2)]
        await cluster.stop(2)
        second = await cluster.begin(2, seeds=(1, 2))
        await until(lambda: len(list_events(caplog, "seed_of_another_cluster")) >= 2)
        assert not second.metadata.is_ready
        assert second.started is not None
        assert not second.started.done()
        first = list_events(caplog, "seed_of_another_cluster")[0]
        assert (first.node, first.address) == (2, cluster.address_text(1))  # type: ignore[attr-defined]
        for part in (*ids, cluster.address_text(1), f"delete {tmp_path / '2'}"):
            assert part is not None
            assert part in caplog.text
        await cluster.stop(1)  # without the seed nothing shows any more that another cluster is meant
        await asyncio.wait_for(second.started, 20)
        assert second.metadata.is_ready


async def test_with_topics_the_broker_does_not_start_and_names_the_next_step(tmp_path: Path) -> None:
    async with brokers(tmp_path, [1, 2], seeds=ALONE) as cluster:
        await cluster.start()
        await cluster.stop(1)
        await cluster.running[2].metadata.submit(cluster.make_topic("t", 1), soon())
        await cluster.stop(2)
        await cluster.start(1)
        second = await cluster.begin(2, seeds=(1, 2))
        assert second.started is not None
        with pytest.raises(IdentityRefused, match=r"holds 1 topics of its own cluster .* with an empty --data-dir"):
            await asyncio.wait_for(second.started, 20)
        await cluster.stop(2)
        await cluster.start(2, seeds=ALONE)
        assert cluster.running[2].metadata.state.has_topic("t")


async def test_seeds_that_still_have_to_join_do_not_delay_the_start(tmp_path: Path) -> None:
    async with brokers(tmp_path, [1, 2, 3], seeds=ALONE) as cluster:
        await cluster.start(1)
        await cluster.stop(1)
        for number in (2, 3):
            await cluster.begin(number, seeds=(1, 2, 3))
        await cluster.start(1, seeds=(1, 2, 3))
        await cluster.wait_until(lambda: all(broker.metadata.is_ready for broker in cluster.running.values()))
        assert len({broker.metadata.cluster_id for broker in cluster.running.values()}) == 1


async def test_a_new_broker_joins_neither_of_two_clusters(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with brokers(tmp_path, [1, 2, 3], seeds=ALONE) as cluster:
        await cluster.start(1, 2)
        third = await cluster.begin(3, seeds=(1, 2, 3))
        await until(lambda: "the seeds belong to different clusters" in caplog.text)
        assert third.metadata.cluster_id is None
        await cluster.stop(3)
        await cluster.start(3, seeds=(2, 3))
        assert cluster.running[3].metadata.cluster_id == cluster.running[2].metadata.cluster_id
