"""Damaged files of one of three brokers: the damage is detected and repaired from the others; no write fails."""

import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from raftlog.errors import InvalidBatch
from raftlog.testing import Cluster, ClusterNode
from raftlog.testing.http import ask
from tests.integration.cluster_load import BINARY, Ledger, Load, check_stored, create_topic
from tests.integration.file_damage import (
    batch_at,
    damage_journal,
    flip,
    list_batches,
    list_segments,
    partition_path,
    stop_and_compare,
    wait_for_words,
)
from tests.waiting import block_until

ENOUGH = 50
SCRUB = ("--scrub-interval-days", "0.00001")
"""A round takes about a second."""


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    with Cluster(3, serve_flags=SCRUB) as cluster:
        yield cluster
        stop_and_compare(cluster)


@pytest.fixture
def written(cluster: Cluster, topic: str) -> Ledger:
    """Create a topic with records in separate batches, committed on every replica."""
    create_topic(cluster.addresses[0], topic)
    with Load(cluster, topic) as ledger:
        ledger.wait_for_more(2 * ENOUGH)
    cluster.wait_healthy()
    return ledger


def choose_node(cluster: Cluster, topic: str, *, leads: bool) -> ClusterNode:
    leader = cluster.leader(topic)
    return cluster.nodes[leader if leads else next(number for number in cluster.nodes if number != leader)]


def wait_until_repaired(node: ClusterNode, file: Path, since: int) -> str:
    wait_for_words(node, "replica_quarantined", str(file), since=since)
    return wait_for_words(node, "replica_repaired", str(file), since=since)


def check_no_failed_write(ledger: Ledger) -> None:
    """Check that no write failed."""
    assert not ledger.refused
    assert not ledger.unknown


class Readers:
    """Threads that read one record through every broker: it must be correct, or the error retriable."""

    def __init__(self, cluster: Cluster, topic: str, offset: int, expected: int) -> None:
        self._path = f"/topics/{topic}/partitions/0/records?offset={offset}&max_bytes=1&timeout=1000"
        self._offset, self._expected = offset, expected
        self._over = threading.Event()
        self.problems: list[str] = []
        self.successes = 0
        self._threads = [threading.Thread(target=self._read, args=(node.http,)) for node in cluster.nodes.values()]

    def __enter__(self) -> "Readers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _read(self, address: str) -> None:
        """Read the record repeatedly through one broker; count its successes, and note unexpected answers."""
        host, _, port = address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        while not self._over.is_set():
            connection.request("GET", self._path, headers={"Accept": BINARY})
            with connection.getresponse() as answer:
                body = answer.read()
            if answer.status == 200 and f'"offset":{self._offset}'.encode() in body.replace(b" ", b""):
                self.successes += 1
            elif answer.status not in (503, 504):
                self.problems.append(f"{address}: {answer.status} {body!r}")
        connection.close()


@pytest.mark.parametrize(
    ("where", "leads"),
    [
        ("records", False),
        ("header", True),
        pytest.param("records", True, marks=pytest.mark.slow),
        pytest.param("header", False, marks=pytest.mark.slow),
    ],
)
def test_a_damaged_batch_of_a_running_broker_is_repaired(
    cluster: Cluster, topic: str, written: Ledger, leads: bool, where: str
) -> None:
    """Writes and reads continue; the damaged replica transfers leadership, names the damage, and is repaired."""
    node = choose_node(cluster, topic, leads=leads)
    value = written.acknowledged[0, ENOUGH]
    stored = batch_at(partition_path(node, topic), ENOUGH)
    since = len(node.log_text())
    with Load(cluster, topic, ledger=written), Readers(cluster, topic, ENOUGH, value) as readers:
        flip(stored.file, stored.position + (3 if where == "header" else stored.size - 3))
        said = wait_until_repaired(node, stored.file, since)
        written.wait_for_more(ENOUGH)
    assert f"position {stored.position}, offset {stored.header.base_offset}" in said
    assert not readers.problems
    assert readers.successes
    check_no_failed_write(written)
    cluster.wait_healthy()
    check_stored(cluster, written)


def _damage_batch(directory: Path) -> None:
    stored = list_batches(directory)[ENOUGH]
    flip(stored.file, stored.position + 70)


def _damage_index_row(directory: Path) -> None:
    flip(list_segments(directory)[0].with_suffix(".index"), 44 * ENOUGH + 20)


def _damage_row_and_batch(directory: Path) -> None:
    _damage_index_row(directory)
    stored = list_batches(directory)[ENOUGH]
    flip(stored.file, stored.position + 8, 8)


def _damage_page(directory: Path) -> None:
    with list_segments(directory)[0].open("r+b") as opened:
        opened.seek(4096)
        opened.write(bytes(2048))


def _damage_time_index(directory: Path) -> None:
    flip(list_segments(directory)[0].with_suffix(".timeindex"), 5)


def _damage_meta(directory: Path) -> None:
    flip(directory / ".raftlog" / "meta", 30)


def _remove_meta(directory: Path) -> None:
    (directory / ".raftlog" / "meta").unlink()


def _damage_peers(directory: Path) -> None:
    flip(directory / ".raftlog" / "peers", 20)


_REPAIRED, _REWRITTEN = "replica_repaired", "is written again"
_PARTITIONS: dict[str, tuple[Callable[[Path], None], str]] = {
    "batch": (_damage_batch, _REPAIRED),
    "row": (_damage_index_row, ""),
    "row-and-batch": (_damage_row_and_batch, _REPAIRED),
    "page": (_damage_page, _REPAIRED),
    "time-index": (_damage_time_index, ""),
    "meta": (_damage_meta, _REWRITTEN),
    "no-meta": (_remove_meta, _REWRITTEN),
}
"""Damage done to the files of each topic, and the event that the broker logs afterwards."""
_NODE: dict[str, tuple[Callable[[Path], None], tuple[str, str]]] = {
    "": (_damage_meta, (_REWRITTEN, "/.raftlog/meta")),
    ".": (_damage_peers, ("is kept as", "peers")),
    ".raftlog/controller": (_damage_meta, (_REWRITTEN, "controller")),
}
"""The same for directories in the data directory."""


@pytest.fixture(scope="module")
def damaged_broker(shared_cluster: Cluster) -> tuple[ClusterNode, dict[str, Ledger], int]:
    """Restart a broker over damaged files of every topic; return it, the ledgers, and its log's length before."""
    ledgers = {}
    for topic in _PARTITIONS:
        create_topic(shared_cluster.addresses[0], topic)
        with Load(shared_cluster, topic) as ledgers[topic]:
            ledgers[topic].wait_for_more(2 * ENOUGH)
    shared_cluster.wait_healthy()
    node = shared_cluster.nodes[2]
    node.restart()  # a start makes a checkpoint: what it covers is not in the journal any more
    shared_cluster.wait_healthy()
    others = [each.http for each in shared_cluster.nodes.values() if each is not node]
    with ExitStack() as loads:
        for topic, ledger in ledgers.items():
            loads.enter_context(Load(shared_cluster, topic, ledger=ledger, addresses=others, writers=1))
        node.stop()
        for topic, (damage, _) in _PARTITIONS.items():
            damage(partition_path(node, topic))
        for name, (damage, _) in _NODE.items():
            damage(node.data_dir / name)
        since = len(node.log_text())
        node.start()
        for ledger in ledgers.values():
            ledger.wait_for_more(ENOUGH)
    shared_cluster.wait_healthy()
    return node, ledgers, since


@pytest.mark.parametrize("topic", _PARTITIONS)
def test_a_damaged_file_of_a_stopped_broker_is_repaired(
    cluster: Cluster, damaged_broker: tuple[ClusterNode, dict[str, Ledger], int], topic: str
) -> None:
    """The broker starts, and its replica is repaired without an operator; no write to the others failed meanwhile."""
    node, ledgers, since = damaged_broker
    words = _PARTITIONS[topic][1]
    if words:
        wait_for_words(node, words, f"/{topic}/0", since=since)
    check_no_failed_write(ledgers[topic])
    check_stored(cluster, ledgers[topic])


@pytest.mark.parametrize("name", _NODE)
def test_a_damaged_file_of_the_broker_is_repaired(
    damaged_broker: tuple[ClusterNode, dict[str, Ledger], int], name: str
) -> None:
    node, _, since = damaged_broker
    wait_for_words(node, *_NODE[name][1], since=since)


def test_damaged_frames_of_the_journal_make_a_new_disk(cluster: Cluster, topic: str, written: Ledger) -> None:
    """Term and votes may be lost with the frames: the disk gets a new identity and all its data from the others."""
    node = choose_node(cluster, topic, leads=False)
    others = [each.http for each in cluster.nodes.values() if each is not node]
    with Load(cluster, topic, ledger=written, addresses=others):
        node.kill()
        journal = damage_journal(node)
        since = len(node.log_text())
        node.start()
        said = wait_for_words(node, "is kept in", "journal", since=since)
        written.wait_for_more(ENOUGH)
    check_no_failed_write(written)
    assert f"{journal}: the journal is damaged" in said
    assert (node.data_dir / ".raftlog" / "damaged" / f"journal-{journal.parent.name}").is_dir()
    cluster.wait_healthy()
    check_stored(cluster, written)


def test_an_unreadable_identity_stops_the_broker(cluster: Cluster, topic: str, written: Ledger) -> None:
    """The broker exits, names the next step, and changes nothing, since it must not guess its identity."""
    node = choose_node(cluster, topic, leads=False)
    node.stop()
    file = node.data_dir / ".raftlog" / "identity"
    flip(file, 30)
    before = {path: path.stat().st_mtime_ns for path in node.data_dir.rglob("*") if path.is_file()}
    since = len(node.log_text())
    node.launch()
    assert node.wait() == 1
    assert "restore it from a copy" in node.log_text()[since:]
    assert {path: path.stat().st_mtime_ns for path in node.data_dir.rglob("*") if path.is_file()} == before
    flip(file, 30)
    node.start()
    cluster.wait_healthy()
    check_stored(cluster, written)


@pytest.mark.parametrize(
    ("size", "how"),
    [
        (100, "flipped"),
        (100_000, "cut off"),
        pytest.param(100, "cut off", marks=pytest.mark.slow),
        pytest.param(100_000, "flipped", marks=pytest.mark.slow),
    ],
)
def test_a_damaged_last_batch_after_a_kill_is_restored(
    cluster: Cluster, topic: str, written: Ledger, size: int, how: str
) -> None:
    """The batch was acknowledged, so it is restored from the journal or the others; only real damage counts as torn."""
    status, answer = ask(
        cluster.addresses[0],
        f"/topics/{topic}/partitions/0?timeout=10000",
        method="POST",
        body={"records": [{"value": "x" * size}]},
    )
    assert status == 200, answer
    node = choose_node(cluster, topic, leads=False)
    cluster.wait_healthy()

    def has_batch() -> bool:
        """Return whether the replica has the batch; the others were a majority without it, so it may arrive later."""
        with contextlib.suppress(InvalidBatch):  # half of it is in the file
            return list_batches(partition_path(node, topic))[-1].size > size
        return False

    block_until(has_batch)
    node.kill()
    last = list_batches(partition_path(node, topic))[-1]
    assert last.size > size
    if how == "flipped":
        flip(last.file, last.position + 80)
    else:
        with last.file.open("r+b") as opened:
            opened.truncate(last.position + last.size // 2)
    since = len(node.log_text())
    node.start()
    if size > 65_536:
        wait_for_words(node, "replica_repaired", str(last.file), since=since)
    cluster.wait_healthy()
    assert last.header.crc in [each.header.crc for each in list_batches(partition_path(node, topic))]
