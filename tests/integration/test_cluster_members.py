"""Brokers with wrong ids, addresses or seeds: each exits with a helpful error, and a running cluster is unaffected."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from raftlog.cluster_secret import ensure_secret
from raftlog.testing import BrokerNotReady, BrokerProcess, Cluster
from raftlog.testing.http import ask
from raftlog.testing.ports import reserve_gossip_port
from tests.integration.cluster_load import Load, check_stored, create_topic
from tests.waiting import block_until

ENOUGH = 30


@pytest.fixture
def under_load(cluster: Cluster, topic: str) -> Iterator[Cluster]:
    """Write to the cluster during the test; check at the end that no write was lost."""
    create_topic(cluster.addresses[0], topic)
    with Load(cluster, topic, writers=2) as ledger:
        ledger.wait_for_more(ENOUGH)
        yield cluster
        ledger.wait_for_more(ENOUGH)
    cluster.wait_healthy()
    check_stored(cluster, ledger)


@pytest.fixture
def free_address() -> Iterator[Callable[[], str]]:
    """Return a function that reserves addresses to listen on until the end of the test."""
    with ExitStack() as ports:

        def make() -> str:
            port = ports.enter_context(reserve_gossip_port())
            port.udp.close()
            return port.address

        yield make


@pytest.fixture
def stranger(tmp_path: Path, free_address: Callable[[], str]) -> Iterator[Callable[..., BrokerProcess]]:
    """Return a function that starts brokers that do not belong to the cluster yet."""
    made: list[BrokerProcess] = []

    def make(*flags: str, rpc: str | None = None, secret: str | None = None) -> BrokerProcess:
        secret = secret or ensure_secret(str(tmp_path / "secret"))
        at = ("--rpc", rpc or free_address(), "--cluster-secret-file", secret)
        data_dir = str(tmp_path / f"stranger-{len(made)}")
        made.append(BrokerProcess(data_dir, *at, "--host-label", f"host-x{len(made)}", *flags, name="the stranger"))
        return made[-1]

    yield make
    for broker in made:
        broker.close()


def seeds_of(cluster: Cluster) -> str:
    return ",".join(node.rpc for node in cluster.nodes.values() if node.rpc is not None)


def test_a_fourth_broker_joins_and_has_the_existing_topics(raftlog_cluster: Cluster) -> None:
    create_topic(raftlog_cluster.addresses[0], "t")
    node = raftlog_cluster.add_node()
    assert node.node_id == 4
    raftlog_cluster.wait_healthy()
    assert [row["node_id"] for row in raftlog_cluster.nodes[1].get("/v1/brokers")] == [1, 2, 3, 4]
    assert "t" in node.get("/topics")
    node.restart()
    raftlog_cluster.wait_healthy()


def test_another_cluster_id_is_refused(under_load: Cluster, stranger: Callable[..., BrokerProcess]) -> None:
    other_id = ("--cluster-id", str(uuid.uuid4()))
    secret = under_load.secret_path
    other = stranger("--node-id", "9", "--seeds", seeds_of(under_load), *other_id, secret=secret)
    with pytest.raises(BrokerNotReady, match=r"ended(.|\n)*belongs to cluster"):
        other.start()


def test_a_cluster_id_other_than_the_directorys_is_refused(
    under_load: Cluster, free_address: Callable[[], str]
) -> None:
    node = under_load.nodes[3]
    node.kill()
    secret = ("--cluster-secret-file", under_load.secret_path)
    other_id = ("--cluster-id", str(uuid.uuid4()))
    wrong = BrokerProcess(str(node.data_dir), "--node-id", "3", "--rpc", free_address(), *secret, *other_id)
    with wrong, pytest.raises(BrokerNotReady, match=r"ended(.|\n)*cluster"):
        wrong.start()
    node.start()


def test_a_used_node_id_is_refused(under_load: Cluster, stranger: Callable[..., BrokerProcess]) -> None:
    with pytest.raises(BrokerNotReady, match=r"ended(.|\n)*node (id )?2"):
        stranger("--node-id", "2", "--seeds", seeds_of(under_load), secret=under_load.secret_path).start()


def test_an_rpc_address_in_use_is_refused(under_load: Cluster, stranger: Callable[..., BrokerProcess]) -> None:
    taken = under_load.nodes[1].rpc_bound
    assert taken is not None
    with pytest.raises(BrokerNotReady, match=rf"ended(.|\n)*{taken.rpartition(':')[2]}"):
        stranger("--node-id", "9", "--seeds", seeds_of(under_load), rpc=taken, secret=under_load.secret_path).start()


def test_a_broker_with_another_secret_waits(under_load: Cluster, stranger: Callable[..., BrokerProcess]) -> None:
    """The broker waits for its seeds, and both sides log the reason."""
    other = stranger("--node-id", "9", "--seeds", seeds_of(under_load))
    other.launch()
    wait_for_words(other, "another cluster secret: give all brokers the same file")
    assert not other.ready
    block_until(
        lambda: any("node 9 has another cluster secret" in log for log in under_load.logs().values()), under_load.logs
    )


def test_a_broker_without_the_secret_is_refused(tmp_path: Path, free_address: Callable[[], str]) -> None:
    flags = ("--node-id", "9", "--rpc", free_address(), "--insecure")
    broker = BrokerProcess(str(tmp_path / "data"), *flags, name="the stranger")
    try:
        with pytest.raises(BrokerNotReady, match=r"raftlog cluster secret create FILE"):
            broker.start()
    finally:
        broker.close()


def test_an_address_of_another_machine_is_refused(stranger: Callable[..., BrokerProcess]) -> None:
    with pytest.raises(BrokerNotReady, match=r"ended(.|\n)*192\.0\.2\.1"):
        stranger("--node-id", "9", "--insecure", rpc="192.0.2.1:7000").start()
    with pytest.raises(BrokerNotReady, match=r"ended(.|\n)*--insecure"):
        stranger("--node-id", "9", rpc="192.0.2.1:7000").start()


def test_seeds_without_answers_are_named(
    stranger: Callable[..., BrokerProcess], free_address: Callable[[], str]
) -> None:
    unanswered = free_address()
    alone = stranger("--node-id", "1", "--seeds", unanswered)
    alone.launch()
    wait_for_words(alone, unanswered)
    assert not alone.ready
    assert alone.stop() == 0


def test_different_seed_lists_form_no_cluster(
    stranger: Callable[..., BrokerProcess], free_address: Callable[[], str]
) -> None:
    """No cluster is formed, and each broker reports the different lists of seeds."""
    first, second, third = (free_address() for _ in range(3))
    one = stranger("--node-id", "1", "--seeds", f"{first},{second}", rpc=first)
    two = stranger("--node-id", "2", "--seeds", f"{first},{second},{third}", rpc=second)
    for broker in (one, two):
        broker.launch()
    for broker in (one, two):
        said = wait_for_words(broker, "lists of seeds differ")
        assert third in said, "both lists are named"
    assert not one.ready
    assert not two.ready


def wait_for_words(broker: BrokerProcess, words: str) -> str:
    block_until(lambda: words in broker.log_text() or not broker.is_running, broker.log_text)
    assert broker.is_running, broker.log_text()
    return broker.log_text()


def test_more_replicas_than_hosts_are_refused(cluster: Cluster) -> None:
    body = {"topic_name": "copies", "partitions_count": 1, "replication_factor": 4}
    status, answer = ask(cluster.addresses[0], "/v3/clusters/-/topics", method="POST", body=body)
    assert status == 400
    assert "4" in answer["message"]
    assert "host" in answer["message"]
    assert "copies" not in cluster.nodes[2].get("/topics")
