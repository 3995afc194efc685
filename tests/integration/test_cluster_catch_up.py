"""A real broker that returns far behind the leader catches up during crashes and trims.

Transfers are throttled, so that they last long enough to be disturbed. In the end all replicas have the same files, and
`raftlog log verify --compare` finds no problem in any of them."""

import contextlib
import http.client
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from raftlog.cli.log.verbs import log
from raftlog.records import build_batch
from raftlog.testing import Cluster
from raftlog.testing.http import ask
from tests.integration.cluster_load import BATCHES, SILENCE_S, create_topic
from tests.waiting import block_until

MIB = 1 << 20
PER_S = 8 * MIB
LACKS = 16 * MIB
SOME = 3 * MIB
"""A transfer that has brought so much is under way, and far from its end."""
AHEAD = 8 * MIB
"""Bytes fetched twice at most after an interrupted transfer: unsynced data and data requested ahead."""
WAIT_S = 60.0
KILLS = 2
ANEW = "restarts at offset"
VALUES = [os.urandom(1000) for _ in range(64)]
BODY = bytes(build_batch(VALUES)) * 16


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    flags = ("--catch-up-bytes-per-s", str(PER_S), "--retention-interval-s", "0.1")
    with Cluster(3, serve_flags=flags) as cluster:
        yield cluster
        for node in cluster.nodes.values():
            node.stop()
        compared = CliRunner().invoke(
            log, ["verify", "--compare", *(str(node.data_dir) for node in cluster.nodes.values())]
        )
        assert compared.exit_code == 0, compared.output


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    return block_until(condition, lambda: what, within_s=WAIT_S)


def fill(address: str, topic: str, size_bytes: int = LACKS) -> None:
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=SILENCE_S)
    for _ in range(-(-size_bytes // len(BODY))):
        connection.request("POST", f"/topics/{topic}/partitions/0", BODY, {"Content-Type": BATCHES})
        with connection.getresponse() as answer:
            body = answer.read()
        assert answer.status == 200, body
    connection.close()


def list_segments(cluster: Cluster, node: int, topic: str) -> list[Path]:
    return sorted((Path(cluster.nodes[node].data_dir) / topic / "0").glob("*.log"))


def stored_bytes(cluster: Cluster, node: int, topic: str) -> int:
    """Return the size of the topic's files; a segment may be trimmed meanwhile."""
    total = 0
    for file in list_segments(cluster, node, topic):
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


def fetched_bytes(cluster: Cluster, node: int, direction: str = "in") -> int:
    """Return the bytes that a broker fetched to catch up, or served to others, since its start."""
    host, _, port = cluster.nodes[node].http.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=SILENCE_S)
    connection.request("GET", "/metrics")
    with connection.getresponse() as answer:
        lines = answer.read().decode().splitlines()
    connection.close()
    name = f'raftlog_catch_up_bytes_total{{direction="{direction}"}}'
    return int(float(next(line for line in lines if line.startswith(name)).split()[-1]))


def fill_and_kill_follower(cluster: Cluster, topic: str, **config: object) -> tuple[int, int]:
    """Fill a topic and stop a follower that lacks most of it; return the leader and the follower."""
    create_topic(cluster.addresses[0], topic, **config)
    leader = cluster.leader(topic)
    fill(cluster.nodes[leader].http, topic, MIB)
    follower = next(node for node in cluster.nodes if node != leader)
    cluster.nodes[follower].kill()
    fill(cluster.nodes[leader].http, topic)
    return leader, follower


def wait_for_progress(cluster: Cluster, follower: int, topic: str, had: int, some: int = SOME) -> None:
    wait_until(lambda: stored_bytes(cluster, follower, topic) >= had + some, "the transfer does not come along")


def require_same_files(cluster: Cluster, topic: str) -> None:
    cluster.wait_healthy(WAIT_S)

    def contents() -> list[list[tuple[str, bytes]]]:
        return [
            [(file.name, file.read_bytes()) for file in list_segments(cluster, node, topic)] for node in cluster.nodes
        ]

    def are_same() -> bool:
        try:
            first, *others = contents()
        except FileNotFoundError:
            return False  # trimmed meanwhile
        return all(other == first for other in others)

    wait_until(are_same, "the replicas have different files")


def test_a_restarted_follower_catches_up(cluster: Cluster, topic: str) -> None:
    """Missing records arrive over the bulk connection, and the metrics show the progress."""
    leader, follower = fill_and_kill_follower(cluster, topic)
    cluster.nodes[follower].start()

    def lag() -> dict[str, Any] | None:
        _, described = ask(cluster.nodes[leader].http, f"/v1/partitions/kafka/{topic}/0")
        (replica,) = (each for each in described["replicas"] if each["node_id"] == follower)
        return replica if replica["catch_up_bytes_per_s"] else None

    first = wait_until(lag, "nobody says that the follower catches up")
    assert 0 < first["bytes_behind"] <= stored_bytes(cluster, leader, topic)
    assert first["entries_behind"] > 0
    cluster.wait_unhealthy(f"node {follower} catches up")
    require_same_files(cluster, topic)
    assert fetched_bytes(cluster, follower) > LACKS // 2
    assert fetched_bytes(cluster, leader, "out") >= fetched_bytes(cluster, follower)


def test_a_follower_behind_the_log_start_gets_a_new_log(cluster: Cluster, topic: str) -> None:
    leader, follower = fill_and_kill_follower(cluster, topic, segment_bytes=MIB, retention_bytes=12 * MIB)
    lacked = list_segments(cluster, follower, topic)[-1].name
    wait_until(lambda: list_segments(cluster, leader, topic)[0].name > lacked, "retention deletes nothing")
    cluster.nodes[follower].start()
    require_same_files(cluster, topic)
    assert list_segments(cluster, follower, topic)[0].name > lacked


def test_a_follower_catches_up_although_the_leader_is_killed_during_the_transfer(cluster: Cluster, topic: str) -> None:
    """The transfer continues with its successor: the follower keeps what it has and does not fetch it twice."""
    leader, follower = fill_and_kill_follower(cluster, topic)
    had = stored_bytes(cluster, follower, topic)
    cluster.nodes[follower].start()
    wait_for_progress(cluster, follower, topic, had)
    cluster.nodes[leader].kill()
    least = stored_bytes(cluster, follower, topic) - AHEAD
    cluster.leader(topic, other_than=[leader])
    assert stored_bytes(cluster, follower, topic) >= least
    fill(next(node.http for node in cluster.nodes.values() if node.is_running), topic, MIB)
    assert fetched_bytes(cluster, follower) <= LACKS + AHEAD
    cluster.nodes[leader].start()
    require_same_files(cluster, topic)


def test_a_follower_catches_up_although_it_is_killed_repeatedly(cluster: Cluster, topic: str) -> None:
    """F7: it catches up, each start continues behind the one before, and the leader's memory does not grow."""
    leader, follower = fill_and_kill_follower(cluster, topic)
    given, memory = fetched_bytes(cluster, leader, "out"), read_memory_bytes(cluster, leader)
    for _ in range(KILLS):
        had = stored_bytes(cluster, follower, topic)
        cluster.nodes[follower].start()
        wait_for_progress(cluster, follower, topic, had)
        cluster.nodes[follower].kill()
        fill(cluster.nodes[leader].http, topic, MIB)
    cluster.nodes[follower].start()
    require_same_files(cluster, topic)
    assert fetched_bytes(cluster, leader, "out") - given <= LACKS + KILLS * (AHEAD + MIB)
    assert read_memory_bytes(cluster, leader) - memory < 64 * MIB


def read_memory_bytes(cluster: Cluster, node: int) -> int:
    pages = int(Path(f"/proc/{cluster.nodes[node].pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_follower_catches_up_although_the_log_is_trimmed_during_the_transfer(cluster: Cluster, topic: str) -> None:
    """Trims do not wait for the fetching replica: it restarts at the new log start."""
    leader, follower = fill_and_kill_follower(cluster, topic, segment_bytes=MIB)
    had, anew = stored_bytes(cluster, follower, topic), cluster.nodes[follower].log_text().count(ANEW)
    cluster.nodes[follower].start()
    wait_for_progress(cluster, follower, topic, had)
    path = f"/v3/clusters/-/topics/{topic}/configs:alter"
    body = {"data": [{"name": "retention.bytes", "value": str(4 * MIB)}]}
    status, answer = ask(cluster.nodes[leader].http, path, method="POST", body=body)
    assert status // 100 == 2, answer
    wait_until(lambda: stored_bytes(cluster, leader, topic) < 6 * MIB, "nothing is trimmed at the leader")
    require_same_files(cluster, topic)
    assert cluster.nodes[follower].log_text().count(ANEW) > anew
