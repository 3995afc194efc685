"""Three brokers whose certificates are renewed under load: no request fails, and every listener has its new one."""

import os
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copy

import confluent_kafka
import pytest
from cryptography import x509

from raftlog.client.addresses import host_of
from raftlog.client.sync import BrokerClient, Producer
from raftlog.security.authority import PrivateAuthority
from raftlog.testing import Cluster
from tests.waiting import block_until

TOPIC = "orders"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, secure=True, with_cuts=False) as cluster:
        with BrokerClient(cluster.access) as client:
            client.create_topic(TOPIC, 3, 3)
        cluster.wait_healthy()
        yield cluster


def serial_at(address: str) -> int:
    """Return the serial number of a listener's certificate."""
    host, _, port = host_of(address).rpartition(":")
    return x509.load_pem_x509_certificate(ssl.get_server_certificate((host, int(port))).encode()).serial_number


def renew(cluster: Cluster, directory: Path) -> dict[int, int]:
    """Replace the certificates of all brokers by new ones of their authority; return the serial numbers."""
    assert cluster.security is not None
    directory.mkdir()
    for name in ("authority.pem", "authority.key"):
        copy(cluster.security.directory / name, directory / name)
    found = {}
    for number, issued in zip(cluster.nodes, PrivateAuthority(str(directory)).issue(cluster.nodes), strict=True):
        found[number] = x509.load_pem_x509_certificate(Path(issued.certificate).read_bytes()).serial_number
        os.replace(issued.key, cluster.security.directory / f"node-{number}.key")
        os.replace(issued.certificate, cluster.security.directory / f"node-{number}.pem")
    return found


class Load:
    """Records of all kinds of clients: open connections, and a new one for each request."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.failures: list[BaseException] = []
        self.counts = {"http": 0, "new connections": 0, "kafka": 0}
        self._is_over = threading.Event()
        work: list[Callable[[], None]] = [self._produce, self._reconnect, self._produce_by_kafka]
        self._threads = [threading.Thread(target=self._run, args=(each,)) for each in work]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)

    def wait_for_more(self, count: int) -> None:
        """Wait until each kind of client has done so much more."""
        wanted = {name: done + count for name, done in self.counts.items()}
        block_until(
            lambda: self.failures or all(self.counts[name] >= least for name, least in wanted.items()),
            lambda: self.counts,
        )
        assert not self.failures, self.failures

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - reported by the test
            self.failures.append(error)

    def _produce(self) -> None:
        with Producer(self._cluster.access) as producer:
            while not self._is_over.is_set():
                producer.send_and_wait(TOPIC, b"http")
                self.counts["http"] += 1

    def _reconnect(self) -> None:
        while not self._is_over.is_set():
            with BrokerClient(self._cluster.access) as client:
                assert len(client.brokers()) == 3
            self.counts["new connections"] += 1

    def _produce_by_kafka(self) -> None:
        security = self._cluster.security
        assert security is not None
        settings = {
            "bootstrap.servers": self._cluster.kafka,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": security.ca,
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": security.user,
            "sasl.password": security.password(),
            "retries": 0,
            "error_cb": lambda error: self.failures.append(RuntimeError(error.str())),
        }
        while not self._is_over.is_set():
            reported: list[object] = []
            producer = confluent_kafka.Producer(settings)
            for _ in range(20):
                producer.produce(
                    TOPIC, b"kafka", on_delivery=lambda error, _, reported=reported: reported.append(error)
                )
            assert producer.flush(30) == 0
            assert reported == [None] * 20
            self.counts["kafka"] += 20


def test_certificates_of_all_brokers_are_renewed_without_a_failed_request(cluster: Cluster, tmp_path: Path) -> None:
    with Load(cluster) as load:
        load.wait_for_more(40)
        serials = renew(cluster, tmp_path / "renewed")
        for number, node in cluster.nodes.items():
            assert node.rpc is not None
            for address in (node.http, node.kafka, node.rpc):
                block_until(
                    lambda address=address, serial=serials[number]: serial_at(address) == serial,
                    lambda number=number, address=address: f"a new certificate of node {number} at {address}",
                )
        load.wait_for_more(40)
    assert load.failures == []
    cluster.nodes[2].restart()
    cluster.wait_healthy()
    assert all("tls_reload_failed" not in text for text in cluster.logs().values())
