"""Files of one broker of three rot: the damage is found and repaired from the others, and no write fails meanwhile."""

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from raftlog.errors import InvalidBatch
from raftlog.testing import Cluster, ClusterNode
from raftlog.testing.http import ask
from tests.integration.cluster_load import BINARY, Ledger, Load, check, create_topic
from tests.integration.file_damage import (
    batch_at,
    batches,
    compare_stopped,
    damage_journal,
    flip,
    partition_path,
    segments,
    wait_for_words,
)
from tests.waiting import WITHIN_S

ENOUGH = 50
SCRUB = ("--scrub-interval-days", "0.00001")
"""A round takes about a second."""


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    with Cluster(3, serve_flags=SCRUB) as cluster:
        yield cluster
        compare_stopped(cluster)


@pytest.fixture
def written(cluster: Cluster, topic: str) -> Ledger:
    """Create a topic with records in separate batches, committed on every replica."""
    create_topic(cluster.addresses[0], topic)
    with Load(cluster, topic) as ledger:
        ledger.wait_for_more(2 * ENOUGH)
    cluster.wait_healthy()
    return ledger


def chosen(cluster: Cluster, topic: str, *, leads: bool) -> ClusterNode:
    leader = cluster.leader(topic)
    return cluster.nodes[leader if leads else next(number for number in cluster.nodes if number != leader)]


def repaired(node: ClusterNode, file: Path, since: int) -> str:
    wait_for_words(node, "replica_quarantined", str(file), since=since)
    return wait_for_words(node, "replica_repaired", str(file), since=since)


def untouched(ledger: Ledger) -> None:
    """Check that no write failed."""
    assert not ledger.refused
    assert not ledger.unknown


class Readers:
    """Readers of one record, repeatedly, through every broker: the right bytes, or a retriable error."""

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
def test_a_batch_of_a_running_broker(cluster: Cluster, topic: str, written: Ledger, leads: bool, where: str) -> None:
    """Writes and reads go on; the damaged replica hands over if it leads, names what is bad, and gets it back."""
    node = chosen(cluster, topic, leads=leads)
    value = written.acknowledged[0, ENOUGH]
    stored = batch_at(partition_path(node, topic), ENOUGH)
    since = len(node.log_text())
    with Load(cluster, topic, ledger=written), Readers(cluster, topic, ENOUGH, value) as readers:
        flip(stored.file, stored.position + (3 if where == "header" else stored.size - 3))
        said = repaired(node, stored.file, since)
        written.wait_for_more(ENOUGH)
    assert f"position {stored.position}, offset {stored.header.base_offset}" in said
    assert not readers.problems
    assert readers.successes
    untouched(written)
    cluster.wait_healthy()
    check(cluster, written)


def _batch(directory: Path) -> None:
    stored = batches(directory)[ENOUGH]
    flip(stored.file, stored.position + 70)


def _index_row(directory: Path) -> None:
    flip(segments(directory)[0].with_suffix(".index"), 44 * ENOUGH + 20)


def _row_and_batch(directory: Path) -> None:
    _index_row(directory)
    stored = batches(directory)[ENOUGH]
    flip(stored.file, stored.position + 8, 8)


def _page(directory: Path) -> None:
    with segments(directory)[0].open("r+b") as opened:
        opened.seek(4096)
        opened.write(bytes(2048))


def _time_index(directory: Path) -> None:
    flip(segments(directory)[0].with_suffix(".timeindex"), 5)


def _meta(directory: Path) -> None:
    flip(directory / ".raftlog" / "meta", 30)


def _no_meta(directory: Path) -> None:
    (directory / ".raftlog" / "meta").unlink()


def _peers(directory: Path) -> None:
    flip(directory / ".raftlog" / "peers", 20)


_REPAIRED, _REWRITTEN = "replica_repaired", "is written again"
_PARTITIONS: dict[str, tuple[Callable[[Path], None], str]] = {
    "batch": (_batch, _REPAIRED),
    "row": (_index_row, ""),
    "row-and-batch": (_row_and_batch, _REPAIRED),
    "page": (_page, _REPAIRED),
    "time-index": (_time_index, ""),
    "meta": (_meta, _REWRITTEN),
    "no-meta": (_no_meta, _REWRITTEN),
}
"""Damage done to the files of each topic, and the event that the broker logs afterwards."""
_NODE: dict[str, tuple[Callable[[Path], None], tuple[str, str]]] = {
    "": (_meta, (_REWRITTEN, "/.raftlog/meta")),
    ".": (_peers, ("is kept as", "peers")),
    ".raftlog/controller": (_meta, (_REWRITTEN, "controller")),
}
"""The same for directories in the data directory."""


@pytest.fixture(scope="module")
def rotten(shared_cluster: Cluster) -> tuple[ClusterNode, dict[str, Ledger], int]:
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
def test_a_file_of_a_stopped_broker(
    cluster: Cluster, rotten: tuple[ClusterNode, dict[str, Ledger], int], topic: str
) -> None:
    """The broker starts, and its replica is whole again by itself; no write to the others failed meanwhile."""
    node, ledgers, since = rotten
    words = _PARTITIONS[topic][1]
    if words:
        wait_for_words(node, words, f"/{topic}/0", since=since)
    untouched(ledgers[topic])
    check(cluster, ledgers[topic])


@pytest.mark.parametrize("name", _NODE)
def test_a_file_of_the_broker_itself(rotten: tuple[ClusterNode, dict[str, Ledger], int], name: str) -> None:
    node, _, since = rotten
    wait_for_words(node, *_NODE[name][1], since=since)


def test_frames_of_the_journal(cluster: Cluster, topic: str, written: Ledger) -> None:
    """Term and votes may be lost with them: the disk becomes another one by itself, and gets everything anew."""
    node = chosen(cluster, topic, leads=False)
    others = [each.http for each in cluster.nodes.values() if each is not node]
    with Load(cluster, topic, ledger=written, addresses=others):
        node.kill()
        journal = damage_journal(node)
        since = len(node.log_text())
        node.start()
        said = wait_for_words(node, "is kept in", "journal", since=since)
        written.wait_for_more(ENOUGH)
    untouched(written)
    assert f"{journal}: the journal is damaged" in said
    assert (node.data_dir / ".raftlog" / "damaged" / f"journal-{journal.parent.name}").is_dir()
    cluster.wait_healthy()
    check(cluster, written)


def test_an_identity_that_cannot_be_read(cluster: Cluster, topic: str, written: Ledger) -> None:
    """The broker must not guess: it exits, names the next step, and changes nothing."""
    node = chosen(cluster, topic, leads=False)
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
    check(cluster, written)


@pytest.mark.parametrize(
    ("size", "how"),
    [
        (100, "flipped"),
        (100_000, "cut off"),
        pytest.param(100, "cut off", marks=pytest.mark.slow),
        pytest.param(100_000, "flipped", marks=pytest.mark.slow),
    ],
)
def test_the_last_batch_after_a_kill(cluster: Cluster, topic: str, written: Ledger, size: int, how: str) -> None:
    """The batch was acknowledged, so it is restored from the journal or the others; nothing else is taken for torn."""
    status, answer = ask(
        cluster.addresses[0],
        f"/topics/{topic}/partitions/0?timeout=10000",
        method="POST",
        body={"records": [{"value": "x" * size}]},
    )
    assert status == 200, answer
    node = chosen(cluster, topic, leads=False)
    cluster.wait_healthy()

    def has_it() -> bool:
        """Return whether the replica has the batch; the others were a majority without it, so it may arrive later."""
        with contextlib.suppress(InvalidBatch):  # half of it is in the file
            return batches(partition_path(node, topic))[-1].size > size
        return False

    deadline_s = time.monotonic() + WITHIN_S
    while not has_it():
        assert time.monotonic() < deadline_s, "the follower does not get the record"
    node.kill()
    last = batches(partition_path(node, topic))[-1]
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
    assert last.header.crc in [each.header.crc for each in batches(partition_path(node, topic))]
