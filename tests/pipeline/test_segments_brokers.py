"""Data directories of three real brokers: read during operation, after `kill -9`, after a stop, and as copies."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftlog.client import Producer
from raftlog.errors import StorageError
from raftlog.pipeline.options import TopicChoice
from raftlog.pipeline.segments.plan import logs_in, plan_segments
from raftlog.pipeline.segments.reader import read_segment_split
from raftlog.pipeline.segments.replicas import find_replicas
from raftlog.runtime.journal.blocks import BLOCK_SIZE
from raftlog.testing import Cluster
from raftlog.testing.http import ask

PARTITIONS, RECORDS = 3, 600
Found = dict[int, list[bytes]]


async def produce(bootstrap: list[str], first: int, count: int) -> None:
    """Produce values `{partition} {number}`, numbered in each partition."""
    async with Producer(bootstrap, batch_records=20, linger_ms=1) as producer:
        for number in range(first, first + count):
            for partition in range(PARTITIONS):
                await producer.send("orders", b"%d %d" % (partition, number), partition=partition)


def read_values(paths: list[Path]) -> Found:
    found: Found = {}
    for split in plan_segments(list(map(str, paths)), split_bytes=20_000):
        for batch in read_segment_split(split):
            found.setdefault(split.partition, []).extend(batch.column("value").to_pylist())
    return found


def numbered_values(count: int) -> Found:
    return {partition: [b"%d %d" % (partition, number) for number in range(count)] for partition in range(PARTITIONS)}


def flip(file: Path, position: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(position)
        [byte] = opened.read(1)
        opened.seek(position)
        opened.write(bytes([byte ^ 1]))


def require_prefix(found: Found, count: int) -> None:
    for partition, kept in found.items():
        assert kept == numbered_values(count)[partition][: len(kept)]


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Return the data directories of brokers 1, 2 and 3.

    Two thirds of the records were produced before broker 1 was killed, one third after; then the others were stopped.
    """
    directory = tmp_path_factory.mktemp("brokers")
    with Cluster(3, data_dir=directory, with_cuts=False) as cluster:
        wanted = {"topic_name": "orders", "partitions_count": PARTITIONS, "replication_factor": 3}
        status, answer = ask(cluster.addresses[0], "/v3/clusters/-/topics", method="POST", body=wanted)
        assert status == 201, answer
        asyncio.run(produce(cluster.addresses, 0, RECORDS // 3))
        paths = [node.data_dir for node in cluster.nodes.values()]
        require_prefix(read_values(paths), RECORDS // 3)  # they run
        asyncio.run(produce(cluster.addresses, RECORDS // 3, RECORDS // 3))
        cluster.nodes[1].kill()
        asyncio.run(produce(cluster.addresses[1:], 2 * RECORDS // 3, RECORDS // 3))
        for number in (2, 3):
            cluster.nodes[number].stop()
        yield paths
    shutil.rmtree(directory)


def test_all_acknowledged_records_are_read_after_a_clean_stop(directories: list[Path]) -> None:
    assert read_values(directories) == numbered_values(RECORDS)
    chosen = logs_in(list(map(str, directories)))
    assert [(each.topic, each.partition, each.start, each.end) for each in chosen] == [
        ("orders", partition, 0, RECORDS) for partition in range(PARTITIONS)
    ]
    assert all(directories[0] not in Path(each.replica.path).parents for each in chosen)


def test_a_killed_broker_alone_is_read_up_to_its_commit_index(directories: list[Path]) -> None:
    found = read_values(directories[:1])
    require_prefix(found, 2 * RECORDS // 3)
    assert all(len(kept) >= RECORDS // 3 for kept in found.values())


def test_every_replica_is_found(directories: list[Path]) -> None:
    found = find_replicas(list(map(str, directories)))
    names = [("__controller", 0), *(("orders", partition) for partition in range(PARTITIONS))]
    assert sorted((each.topic, each.partition) for each in found if each.topic != "__consumer_offsets") == sorted(
        3 * names
    )
    for name in names:
        assert len({each.group_id for each in found if (each.topic, each.partition) == name}) == 1
    [only] = find_replicas([f"{directories[1]}/orders/2"])
    assert (only.topic, only.partition, only.owner is not None) == ("orders", 2, True)
    [controller] = logs_in([str(directories[1])], topics=TopicChoice(names=("__controller",)))
    assert controller.problems == ()


def newest_journal_block(directory: Path) -> tuple[Path, int]:
    """Return file and position of the journal block that was written last."""
    found = []
    for file in (directory / ".raftlog" / "journal").glob("*/*.journal"):
        data = file.read_bytes()
        for at in range(0, len(data), BLOCK_SIZE):
            if data[at : at + 4] == b"RLJB":
                found.append((int.from_bytes(data[at + 24 : at + 32]), file, at))
    return max(found)[1:]


def test_the_error_for_a_damaged_journal_names_the_next_step(directories: list[Path]) -> None:
    file, position = newest_journal_block(directories[0])
    flip(file, position + 100)
    with pytest.raises(StorageError, match=r"journal: the journal is damaged .*Read the directories of the other"):
        read_values(directories[:1])
    flip(file, position + 100)
    assert read_values(directories[:1])


def test_a_copy_without_a_journal_is_read_up_to_its_last_intact_entries(
    directories: list[Path], tmp_path: Path
) -> None:
    leave_out = shutil.ignore_patterns("journal")
    shutil.copytree(directories[1], tmp_path / "copy", ignore=leave_out)
    with pytest.warns(UserWarning, match="copy has no journal"):
        assert read_values([tmp_path / "copy"]) == numbered_values(RECORDS)
    shutil.copytree(directories[2] / "orders", tmp_path / "backup" / "orders")
    assert read_values([tmp_path / "backup"]) == numbered_values(RECORDS)
    assert read_values([tmp_path / "backup" / "orders" / "1"]) == {1: numbered_values(RECORDS)[1]}
