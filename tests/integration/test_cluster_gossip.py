"""Gossip between three real brokers: it detects joins and crashes, and no decision depends on it."""

import os
import random
import socket
import urllib.request
from collections.abc import Iterable
from functools import partial

import orjson
import pytest

from raftlog.testing import Cluster
from raftlog.testing.http import ask
from tests.integration.cluster_load import Load, check_stored, create_topic
from tests.waiting import block_until

WAIT_S = 30.0
ENOUGH = 50
PROBES_WATCHED = 30
"""Probes by each broker while datagrams are lost; it sends about two in a second."""


def member_states(cluster: Cluster, at: int) -> dict[int, str]:
    """Return the states of the members in one broker's view."""
    told = cluster.nodes[at].get("/v1/cluster/members")
    return {member["node_id"]: member["state"] for member in told["members"]}


def wait_states(cluster: Cluster, expected: dict[int, str], at: Iterable[int]) -> None:
    for node in at:
        block_until(
            lambda node=node: expected.items() <= member_states(cluster, node).items(),
            lambda node=node: f"node {node} sees {member_states(cluster, node)}, and {expected} is expected",
        )


def all_alive(cluster: Cluster) -> None:
    wait_states(cluster, dict.fromkeys(cluster.nodes, "alive"), cluster.nodes)


def wait_logged(cluster: Cluster, node: int, at: dict[int, int], expected: list[str]) -> None:
    """Wait until brokers have logged exactly these events of a member in this order, after positions in their logs.

    Events that the member is alive may come in addition."""
    for other, since in at.items():
        logged = partial(_logged_events, cluster, other, node, since)
        block_until(lambda logged=logged: logged() == expected, logged)


def _logged_events(cluster: Cluster, at: int, node: int, since: int) -> list[str]:
    lines = [orjson.loads(line) for line in cluster.nodes[at].log_text()[since:].splitlines()]
    names = [line["event"] for line in lines if line.get("node") == node and line["event"].startswith("member_")]
    return [name for name in names if name != "member_alive"]


def test_a_killed_broker_is_suspected_then_dead_everywhere_and_alive_when_it_is_back(cluster: Cluster) -> None:
    all_alive(cluster)
    log_sizes = {node: len(cluster.nodes[node].log_text()) for node in (1, 2)}
    cluster.nodes[3].kill()
    wait_states(cluster, {1: "alive", 2: "alive", 3: "dead"}, (1, 2))
    wait_logged(cluster, 3, log_sizes, ["member_suspected", "member_dead"])
    cluster.nodes[3].start()
    all_alive(cluster)


def test_a_broker_that_stops_in_order_has_left_and_was_never_suspected(cluster: Cluster) -> None:
    all_alive(cluster)
    log_sizes = {node: len(cluster.nodes[node].log_text()) for node in (1, 2)}
    cluster.nodes[3].stop()
    wait_states(cluster, {3: "left"}, (1, 2))
    wait_logged(cluster, 3, log_sizes, ["member_left"])
    cluster.nodes[3].start()
    all_alive(cluster)


def test_a_paused_broker_refutes_its_reported_death(cluster: Cluster) -> None:
    all_alive(cluster)
    cluster.nodes[2].pause()
    wait_states(cluster, {2: "dead"}, (1, 3))
    cluster.nodes[2].resume()
    all_alive(cluster)


def test_with_gossip_blocked_the_cluster_continues_with_the_same_voters(cluster: Cluster, topic: str) -> None:
    """F28, first half: a failure suspected by gossip changes no voter set."""
    all_alive(cluster)
    create_topic(cluster.addresses[0], topic, partitions=3)
    cluster.wait_healthy()
    before = in_sync(cluster, topic)
    cluster.cut_gossip([1], [2, 3])
    with Load(cluster, topic, partitions=3) as ledger:
        wait_states(cluster, {1: "dead"}, (2, 3))
        wait_states(cluster, {2: "dead", 3: "dead"}, (1,))
        ledger.wait_for_more(ENOUGH)
    cluster.wait_healthy()  # a broker that answers is alive
    assert in_sync(cluster, topic) == before == [[1, 2, 3]] * 3
    cluster.heal()
    all_alive(cluster)
    check_stored(cluster, ledger, 3)


def in_sync(cluster: Cluster, topic: str) -> list[list[int]]:
    """Return the in-sync replicas of each partition."""
    _, told = ask(cluster.addresses[0], f"/topics/{topic}")
    return [sorted(each["broker"] for each in part["replicas"] if each["in_sync"]) for part in told["partitions"]]


def test_a_leader_that_only_gossips_is_replaced(cluster: Cluster, topic: str) -> None:
    """F28, second half: a leader that is alive by gossip alone is replaced."""
    all_alive(cluster)
    create_topic(cluster.addresses[0], topic)
    leader = cluster.leader(topic)
    others = [node for node in cluster.nodes if node != leader]
    cluster.cut_rpc([leader], others)
    with Load(cluster, topic) as ledger:
        assert cluster.leader(topic, other_than=[leader]) in others
        ledger.wait_for_more(ENOUGH)
        assert {node: member_states(cluster, node) for node in cluster.nodes} == dict.fromkeys(
            cluster.nodes, dict.fromkeys(cluster.nodes, "alive")
        )
    cluster.heal()
    cluster.wait_healthy()
    check_stored(cluster, ledger, 1)


def test_garbage_at_the_gossip_port_is_counted_and_changes_nothing(cluster: Cluster) -> None:
    all_alive(cluster)
    node = cluster.nodes[1]
    assert node.gossip_bound is not None
    host, port = node.gossip_bound.split(":")
    seeded = random.Random(7)
    with socket.socket(type=socket.SOCK_DGRAM) as stranger:
        for size in [1, 3, 47, 64, 500, 1_200, 1_201, 9_000] * 25:
            stranger.sendto(seeded.randbytes(size), (host, int(port)))
            stranger.sendto(b"RLG\x01" + seeded.randbytes(size), (host, int(port)))
    for head in (b"", b"\xff\xff\xff\xff", b"\x00\x00\x00\x40" + os.urandom(64)):
        with socket.create_connection((host, int(port))) as stream:
            stream.sendall(head)
    block_until(lambda: sum(refused_messages(cluster, 1).values()) >= 300, lambda: refused_messages(cluster, 1))
    assert {"truncated", "foreign", "oversize", "cluster"} <= refused_messages(cluster, 1).keys()
    all_alive(cluster)
    cluster.wait_healthy()


def count_probes(cluster: Cluster, node: int) -> int:
    """Return the number of probes that a broker has sent."""
    with urllib.request.urlopen(f"http://{cluster.nodes[node].http}/metrics", timeout=WAIT_S) as answer:
        lines = answer.read().decode().splitlines()
    [count] = [line.split(" ")[1] for line in lines if line.startswith("raftlog_gossip_probes_total ")]
    return int(float(count))


def refused_messages(cluster: Cluster, node: int) -> dict[str, float]:
    """Return the counts of discarded gossip messages by reason."""
    with urllib.request.urlopen(f"http://{cluster.nodes[node].http}/metrics", timeout=WAIT_S) as answer:
        lines = answer.read().decode().splitlines()
    rows = [line.split(" ") for line in lines if line.startswith("raftlog_gossip_refused_total{")]
    return {label.split('"')[1]: float(count) for label, count in rows if float(count)}


def test_a_cluster_without_gossip_works() -> None:
    topic = "quiet"
    with Cluster(3, with_gossip=False) as cluster:
        create_topic(cluster.addresses[0], topic)
        with Load(cluster, topic) as ledger:
            ledger.wait_for_more(ENOUGH)
            leader = cluster.leader(topic)
            cluster.nodes[leader].kill()
            cluster.leader(topic, other_than=[leader])
            ledger.wait_for_more(ENOUGH)
        other = next(node for node in cluster.nodes if node != leader)
        assert set(member_states(cluster, other).values()) == {"unknown"}
        cluster.nodes[leader].start()
        cluster.wait_healthy()
        check_stored(cluster, ledger, 1)


@pytest.mark.slow
def test_with_a_third_of_all_datagrams_lost_no_member_is_declared_dead(cluster: Cluster) -> None:
    all_alive(cluster)
    log_sizes = {node: len(cluster.nodes[node].log_text()) for node in cluster.nodes}
    cluster.lose_gossip(0.3)
    for node in cluster.nodes:
        enough = count_probes(cluster, node) + PROBES_WATCHED
        block_until(
            lambda node=node, enough=enough: count_probes(cluster, node) >= enough,
            lambda node=node: count_probes(cluster, node),
            within_s=4 * WAIT_S,
        )
    for node, size in log_sizes.items():
        assert '"member_dead"' not in cluster.nodes[node].log_text()[size:]
