"""Three real brokers under load and under faults: no acknowledged write is lost.

Processes, sockets and disks are real (`raftlog.testing`); cuts are made by the proxy between the brokers.
"""

import itertools
import random
import socket
import time
from contextlib import ExitStack

import pytest

from raftlog.testing import Cluster, LinkCounters, NetworkConditions
from raftlog.testing.http import ask
from tests.integration.cluster_load import (
    Ledger,
    Load,
    check_stored,
    create_topic,
    delete_topic,
    read_first_values,
    read_values,
)

ENOUGH = 50
"""Acknowledgements that prove that writes work."""
DEADLINE_MS = 1_000
PAUSE_S_MAX = 5.0
"""Time without a successful write around the death of a leader, on a busy machine."""
NETWORK_FAULTS_S_MAX = 60.0
"""Time limit until each link was affected."""


def other_nodes(cluster: Cluster, node: int) -> list[int]:
    return [number for number in cluster.nodes if number != node]


def check_settled(cluster: Cluster, ledger: Ledger, partitions: int = 1) -> None:
    cluster.wait_healthy()
    check_stored(cluster, ledger, partitions)


def test_no_acknowledged_record_is_lost_when_leaders_are_killed(cluster: Cluster, topic: str) -> None:
    create_topic(cluster.addresses[0], topic)
    with Load(cluster, topic) as ledger:
        for _ in range(2):
            ledger.wait_for_more(ENOUGH)
            leader = cluster.leader(topic)
            at = time.monotonic()
            cluster.nodes[leader].kill()
            ledger.wait_for_more(ENOUGH)
            assert ledger.longest_pause_s(at) < PAUSE_S_MAX
            assert cluster.leader(topic, other_than=[leader]) != leader
            cluster.nodes[leader].start()
        ledger.wait_for_more(ENOUGH)
    check_settled(cluster, ledger)


def test_no_acknowledged_record_is_lost_when_all_brokers_are_killed(cluster: Cluster, topic: str) -> None:
    create_topic(cluster.addresses[0], topic)
    with Load(cluster, topic) as ledger:
        ledger.wait_for_more(ENOUGH)
        for node in cluster.nodes.values():
            node.kill()
        for node in cluster.nodes.values():
            node.launch()
        for node in cluster.nodes.values():
            node.wait_ready()
        ledger.wait_for_more(ENOUGH)
    check_settled(cluster, ledger)


def test_writes_survive_network_faults_and_resets(cluster: Cluster, topic: str) -> None:
    create_topic(cluster.addresses[0], topic)
    links = list(itertools.permutations(cluster.nodes, 2))
    before = cluster.counters()
    cluster.set_conditions(links, NetworkConditions(delay_ms=5, jitter_ms=5, loss=0.01, duplicate=0.5, reorder=0.2))
    with Load(cluster, topic) as ledger:
        ledger.wait_for_more(ENOUGH)
        for _ in range(3):
            assert cluster.reset_connections(links)
            ledger.wait_for_more(ENOUGH)
        until = time.monotonic() + NETWORK_FAULTS_S_MAX
        while missing := {link: seen for link in links if (seen := missing_effects(cluster, before, link))}:
            assert time.monotonic() < until, missing
            ledger.wait_for_more(1)
        cluster.heal()
        ledger.wait_for_more(ENOUGH)
    check_settled(cluster, ledger)


def missing_effects(cluster: Cluster, before: dict[tuple[int, int], LinkCounters], link: tuple[int, int]) -> str:
    """Describe the network faults that have not affected a directed link yet; empty when all of them have."""
    seen = cluster.counters()[link].subtract(before[link])
    rpc, gossip = seen
    happened = rpc.delayed_bytes and rpc.resets and gossip.delayed_datagrams and gossip.duplicated_datagrams
    return "" if happened else str(seen)


@pytest.mark.parametrize("pause_s", [2.0, pytest.param(30.0, marks=pytest.mark.slow)])
def test_writes_continue_and_none_is_lost_while_a_leader_is_paused(
    cluster: Cluster, topic: str, pause_s: float
) -> None:
    """The resumed leader is deposed, with requests in its sockets that clients sent to it as the leader."""
    create_topic(cluster.addresses[0], topic)
    leader = cluster.leader(topic)
    ledger = Ledger(topic)
    pinned = [cluster.nodes[leader].http]
    with Load(cluster, topic, ledger=ledger, writers=3, addresses=pinned), Load(cluster, topic, ledger=ledger):
        ledger.wait_for_more(ENOUGH)
        cluster.nodes[leader].pause()
        until = time.monotonic() + pause_s
        cluster.leader(topic, other_than=[leader])
        ledger.wait_for_more(ENOUGH)
        while time.monotonic() < until:
            ledger.wait_for_more(1)
        cluster.nodes[leader].resume()
        ledger.wait_for_more(ENOUGH)
    check_settled(cluster, ledger)


@pytest.mark.parametrize("one_way", [pytest.param(False, marks=pytest.mark.slow), True])
def test_writes_continue_and_none_is_lost_while_a_leader_is_isolated(
    cluster: Cluster, topic: str, one_way: bool
) -> None:
    """Clients still reach it; each write that it acknowledges is stored afterwards."""
    create_topic(cluster.addresses[0], topic)
    leader = cluster.leader(topic)
    ledger = Ledger(topic)
    pinned = [cluster.nodes[leader].http]
    with Load(cluster, topic, ledger=ledger, writers=3, addresses=pinned), Load(cluster, topic, ledger=ledger):
        ledger.wait_for_more(ENOUGH)
        cluster.cut([leader], other_nodes(cluster, leader), one_way=one_way)
        at = time.monotonic()
        assert cluster.leader(topic, other_than=[leader]) != leader
        ledger.wait_for_more(ENOUGH)
        assert ledger.longest_pause_s(at) < PAUSE_S_MAX
        cluster.heal()
        ledger.wait_for_more(ENOUGH)
    check_settled(cluster, ledger)


def test_writes_fail_without_a_majority_and_resume_with_it(cluster: Cluster, topic: str) -> None:
    """Writes fail at their deadline, committed records can be read, and writes resume without an operator."""
    create_topic(cluster.addresses[0], topic)
    with Load(cluster, topic) as ledger:
        ledger.wait_for_more(ENOUGH)
    before = read_values(cluster.addresses[0], topic)
    left = cluster.nodes[cluster.leader(topic)]
    lost = other_nodes(cluster, left.node_id)
    with Load(cluster, topic, ledger=ledger):
        for node in lost:
            cluster.nodes[node].kill()
        for _ in range(2):  # as a leader that does not know it yet, and afterwards
            began = time.monotonic()
            assert write_and_fail(left.http, ledger) in ("failed", "unknown")
            assert time.monotonic() - began < DEADLINE_MS / 1000 + 2
            assert read_first_values(left.http, topic, len(before)) == before
        for node in lost:
            cluster.nodes[node].launch()
        for node in lost:
            cluster.nodes[node].wait_ready()
        ledger.wait_for_more(ENOUGH)
    check_settled(cluster, ledger)


def write_and_fail(address: str, ledger: Ledger) -> str:
    """Return the outcome of a write that cannot succeed."""
    value = ledger.begin()
    path = f"/topics/{ledger.topic}/partitions/0?timeout={DEADLINE_MS}"
    status, answer = ask(address, path, method="POST", body={"records": [{"value": value}]}, timeout_s=20)
    row = answer["offsets"][0] if status == 200 else answer
    assert row["error_code"] in (42901, 50302, 50401), answer
    if row["outcome"] == "failed":
        ledger.refused.add(value)
    return str(row["outcome"])


def test_records_of_a_deleted_topic_are_never_served_by_a_returning_broker(cluster: Cluster, topic: str) -> None:
    """The returning broker has records of the deleted topic on its disk, which are never served."""
    create_topic(cluster.addresses[0], topic)
    with Load(cluster, topic) as old:
        old.wait_for_more(ENOUGH)
    away = cluster.nodes[cluster.leader(topic)]
    away.kill()
    here = cluster.nodes[other_nodes(cluster, away.node_id)[0]].http
    cluster.leader(topic, other_than=[away.node_id])
    delete_topic(here, topic)
    create_topic(here, topic)
    new = Ledger(topic)
    new.values = iter(range(1_000_000, 2_000_000))  # type: ignore[assignment]  # none of the old ones
    with Load(cluster, topic, ledger=new):
        new.wait_for_more(ENOUGH)
        away.start()
        new.wait_for_more(ENOUGH)
    check_settled(cluster, new)
    away.kill()
    check_stored(cluster, new)


def test_garbage_on_the_rpc_port_changes_nothing(cluster: Cluster, topic: str) -> None:
    create_topic(cluster.addresses[0], topic)
    noise = random.Random(1)
    pieces = (b"", b"RLOG", b"GET / HTTP/1.1\r\n\r\n", b"RLOG\x01\x01\0\0" + b"\xff" * 40, noise.randbytes(4096))
    with Load(cluster, topic) as ledger, ExitStack() as connections:
        for node in cluster.nodes.values():
            for address in (node.rpc_bound, node.rpc):
                assert address is not None
                host, _, port = address.rpartition(":")
                for garbage in pieces:
                    connection = connections.enter_context(socket.create_connection((host, int(port))))
                    connection.sendall(garbage)
        ledger.wait_for_more(ENOUGH)
    check_settled(cluster, ledger)
    assert all(node.is_running for node in cluster.nodes.values())
