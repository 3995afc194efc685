"""File systems without space on one or most brokers: writes are refused at once, all else continues (F18).

When there is space again, writes resume without an order."""

import time
from collections.abc import Iterator

import pytest

from raftlog.testing import BrokerNotReady, Cluster
from raftlog.testing.http import ask
from tests.integration.cluster_load import Load, check_stored, create_topic, delete_topic, read_first_values
from tests.integration.small_disks import MIB, SmallDisk, cluster_on_small_disks
from tests.waiting import block_until

ENOUGH = 50
MIN_FREE_BYTES = 16 * MIB
PROMPT_S = 1.0

Place = tuple[Cluster, dict[int, SmallDisk]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("disks")
    with cluster_on_small_disks(
        directory, 160 * MIB, "--storage-min-free-bytes", str(MIN_FREE_BYTES), "--retention-interval-s", "0.5"
    ) as place:
        yield place


@pytest.fixture
def place(shared: Place) -> Iterator[Place]:
    cluster, disks = shared
    cluster.wait_healthy()
    yield shared
    for disk in disks.values():
        disk.free()


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_clients_notice_nothing_of_one_full_disk(place: Place, leads: bool) -> None:
    """Brokers with space lead, and no write fails."""
    cluster, disks = place
    topic = f"one-{leads}"
    create_topic(cluster.addresses[0], topic)
    leader = cluster.leader(topic)
    node = leader if leads else next(number for number in cluster.nodes if number != leader)
    with Load(cluster, topic) as ledger:
        ledger.wait_for_more(ENOUGH)
        disks[node].fill()
        cluster.wait_unhealthy(f"node {node}: the disk has no room for records")
        assert cluster.leader(topic, other_than=[node]) != node
        ledger.wait_for_more(2 * ENOUGH)
        disks[node].free()
        ledger.wait_for_more(ENOUGH)
    assert not ledger.unknown
    cluster.wait_healthy()
    check_stored(cluster, ledger)


def test_with_most_disks_full_writes_fail_definitely(place: Place) -> None:
    """Writes fail at once; reads, retention and deletions continue; free space is enough for recovery."""
    cluster, disks = place
    for topic in ("most", "doomed"):
        create_topic(cluster.addresses[0], topic)
    create_topic(cluster.addresses[0], "trimmed", segment_bytes=MIB, retention_bytes=-1)
    for _ in range(5):
        produce(cluster, 1, "trimmed", MIB // 2)
    with Load(cluster, "most") as ledger:
        ledger.wait_for_more(ENOUGH)
        full = sorted(disks)[:2]
        for number in full:
            disks[number].fill(MIN_FREE_BYTES * 3 // 4)
        for number in full:
            cluster.wait_unhealthy(f"node {number}: the disk has no room for records")
        for number in cluster.nodes:
            status, answer, took_s = produce(cluster, number, "doomed")
            assert (status, answer["outcome"]) == (507, "failed"), answer
            assert took_s < PROMPT_S
        assert len(read_first_values(cluster.addresses[0], "most", ENOUGH)) == ENOUGH
        set_retention(cluster, "trimmed", MIB)
        block_until(lambda: read_log_start(cluster, "trimmed") > 0)
        delete_topic(cluster.addresses[2], "doomed")
        assert all(node.is_running for node in cluster.nodes.values())
        for disk in disks.values():
            disk.free()
        ledger.wait_for_more(ENOUGH)
    cluster.wait_healthy()
    check_stored(cluster, ledger)


def test_a_broker_restarts_on_a_full_disk(place: Place) -> None:
    """With little space the broker serves its data. Without any it reports the space that it needs and exits."""
    cluster, disks = place
    create_topic(cluster.addresses[0], "again")
    node = cluster.nodes[1]
    with Load(cluster, "again", writers=1) as ledger:
        ledger.wait_for_more(ENOUGH)
        disks[1].fill(MIB)
        cluster.wait_unhealthy("node 1: the disk has no room for records")
        node.kill()
        node.start()
        node.kill()
        disks[1].fill()
        with pytest.raises(BrokerNotReady, match=r"the disk is full.*free some space"):
            node.start()
        disks[1].free()
        node.start()
        ledger.wait_for_more(ENOUGH)
    cluster.wait_healthy()
    check_stored(cluster, ledger)


def produce(cluster: Cluster, node: int, topic: str, size: int = 1) -> tuple[int, dict[str, object], float]:
    """Return status, body and duration of one write with a long timeout."""
    begin = time.monotonic()
    body = {"records": [{"partition": 0, "value": "0" * size}]}
    status, answer = ask(cluster.nodes[node].http, f"/topics/{topic}?timeout=8000", method="POST", body=body)
    return status, answer, time.monotonic() - begin


def set_retention(cluster: Cluster, topic: str, size: int) -> None:
    change = {"data": [{"name": "retention.bytes", "value": str(size)}]}
    path = f"/v3/clusters/-/topics/{topic}/configs:alter"
    status, answer = ask(cluster.addresses[0], path, method="POST", body=change)
    assert status == 204, answer


def read_log_start(cluster: Cluster, topic: str) -> int:
    status, answer = ask(cluster.addresses[0], f"/topics/{topic}/partitions/0/offsets")
    assert status == 200, answer
    return int(answer["beginning_offset"])
