"""`raftlog partition recover` on real brokers: partitions that no majority can lead, and the records that remain."""

import json
import shutil
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from raftlog.testing import Cluster, ClusterNode
from raftlog.testing.http import ask
from tests.forked.commands import run_raftlog
from tests.integration.cluster_load import Ledger, Load, check_stored, create_topic, read_values
from tests.integration.file_damage import batch_at, flip, partition_path, stop_and_compare, wait_for_words

ENOUGH = 50
SCRUB = ("--scrub-interval-days", "0.00001")


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    with Cluster(3, serve_flags=SCRUB) as cluster:
        yield cluster
        stop_and_compare(cluster)


def recover(cluster: Cluster, topic: str, *flags: str, expect: int) -> tuple[dict[str, Any], str]:
    """Run the recovery command for partition 0; return its JSON and its standard error."""
    done = run_raftlog("partition", "recover", f"{topic}/0", "--json", *flags, "--bootstrap", cluster.bootstrap)
    assert done.returncode == expect, f"{done.stdout}{done.stderr}"
    return json.loads(done.stdout), done.stderr


def create_written_topic(cluster: Cluster, topic: str, copies: int) -> Ledger:
    create_topic(cluster.addresses[0], topic, copies=copies)
    with Load(cluster, topic) as ledger:
        ledger.wait_for_more(2 * ENOUGH)
    cluster.wait_healthy()
    return ledger


def create_single(cluster: Cluster, topic: str, node: int) -> str:
    """Create topics with one replica until this node has one; return its name."""
    for number in range(12):
        name = f"{topic}-single-{number}"
        create_topic(cluster.addresses[0], name, copies=1)
        if cluster.leader(name) == node:
            return name
    raise AssertionError(f"12 topics were placed on other nodes than {node}")


def replica_nodes(cluster: Cluster, topic: str) -> list[ClusterNode]:
    return [node for node in cluster.nodes.values() if partition_path(node, topic).is_dir()]


def damage_everywhere(cluster: Cluster, topic: str, offset: int) -> None:
    """Damage the same record on every replica; wait until each replica has detected it."""
    begins = {node.node_id: len(node.log_text()) for node in cluster.nodes.values()}
    for node in replica_nodes(cluster, topic):
        batch = batch_at(partition_path(node, topic), offset)
        flip(batch.file, batch.position + batch.size - 3)
    for node in replica_nodes(cluster, topic):
        wait_for_words(node, "no other replica has it yet", topic, since=begins[node.node_id])


def metric(node: ClusterNode, name: str) -> float:
    with urllib.request.urlopen(f"http://{node.http}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(f"{name} ")))


def produce_refused(cluster: Cluster, topic: str) -> dict[str, Any]:
    path = f"/topics/{topic}/partitions/0?timeout=1000"
    status, answer = ask(cluster.addresses[0], path, method="POST", body={"records": [{"value": "x"}]}, timeout_s=20)
    row: dict[str, Any] = answer if status != 200 else answer["offsets"][0]
    return row


def offsets_of(node: ClusterNode, topic: str, end: int) -> list[int]:
    """Return all offsets below `end` that can be read."""
    found: list[int] = []
    while not found or found[-1] < end - 1:
        offset = found[-1] + 1 if found else 0
        records = node.get(f"/topics/{topic}/partitions/0/records?offset={offset}&timeout=5000")
        found += [record["offset"] for record in records]
    return found


@pytest.mark.parametrize("copies", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_a_record_damaged_in_every_replica_is_removed(cluster: Cluster, topic: str, copies: int) -> None:
    """Intact records stay readable; the recovery removes one record and keeps all others."""
    ledger = create_written_topic(cluster, topic, copies)
    before = read_values(cluster.addresses[0], topic)
    damage_everywhere(cluster, topic, ENOUGH)
    assert (row := produce_refused(cluster, topic))["error_code"] == 50303, row
    assert row["outcome"] == "failed"
    assert f"raftlog partition recover {topic}/0" in str(row)
    assert all(node.get("/v1/status/ready")["status"] == "ready" for node in cluster.nodes.values())
    for node in replica_nodes(cluster, topic):
        assert metric(node, "raftlog_partitions_quarantined") == 1
        described = node.get(f"/v1/partitions/kafka/{topic}/0")["replicas"]
        said = {replica["node_id"]: replica["problem"] for replica in described}[node.node_id]
        assert f"offset {ENOUGH}: the CRC does not match; it is being repaired (retrying: no other replica" in said
    cluster.wait_unhealthy(f"offset {ENOUGH}: the CRC does not match; it is being repaired")
    holder = replica_nodes(cluster, topic)[0]
    assert holder.get(f"/topics/{topic}/partitions/0/records?offset={ENOUGH + 1}&timeout=2000&max_bytes=1")
    found, said = recover(cluster, topic, expect=1)
    assert found["loss"] == [f"offsets {ENOUGH} to {ENOUGH}"]
    assert not found["done"]
    assert "--accept-loss" in said
    found, _ = recover(cluster, topic, "--accept-loss", expect=0)
    assert found["lost_offsets"] == [[ENOUGH, ENOUGH + 1]]
    assert len(found["kept_in"]) == copies
    with Load(cluster, topic, ledger=ledger):
        ledger.wait_for_more(ENOUGH)
    cluster.wait_healthy()
    end = max(offset for _, offset in ledger.acknowledged) + 1
    for node in cluster.nodes.values():
        assert offsets_of(node, topic, end) == [offset for offset in range(end) if offset != ENOUGH]
    records = cluster.nodes[1].get(f"/topics/{topic}/partitions/0/records?offset={ENOUGH + 1}&timeout=2000&max_bytes=1")
    assert records[0]["value"] == before[ENOUGH + 1]
    assert "there is nothing to recover" in recover(cluster, topic, "--accept-loss", expect=1)[1]


def test_a_partition_recovers_after_the_loss_of_a_majority_of_disks(cluster: Cluster, topic: str) -> None:
    """Recovery is refused while the lost disk could return; later the remaining replica leads and gets a second."""
    ledger = create_written_topic(cluster, topic, 2)
    lost = cluster.nodes[cluster.leader(topic)]
    single = create_single(cluster, topic, lost.node_id)
    lost.kill()
    assert f"node {lost.node_id} does not answer" in recover(cluster, topic, "--accept-loss", expect=1)[1]
    shutil.rmtree(lost.data_dir)
    lost.start()
    cluster.wait_unhealthy(f"raftlog partition recover {topic}/0")
    found, _ = recover(cluster, topic, expect=1)
    assert [each["node_id"] for each in found["replaced_disks"]] == [lost.node_id]
    assert "nobody who is left knows them" in found["loss"][0]
    found, _ = recover(cluster, topic, "--accept-loss", expect=0)
    assert found["lost_offsets"] == []
    with Load(cluster, topic, ledger=ledger):
        ledger.wait_for_more(ENOUGH)
    check_stored(cluster, ledger)
    found, _ = recover(cluster, single, expect=1)
    assert found["loss"] == ["everything: all disks that held it are gone, and its offsets begin at 0 again"]
    recover(cluster, single, "--accept-loss", expect=0)
    cluster.wait_healthy()
    path = f"/topics/{single}/partitions/0"
    status, answer = ask(cluster.addresses[0], path, method="POST", body={"records": [{"value": "again"}]})
    assert (status, answer["offsets"][0]["offset"]) == (200, 0)
