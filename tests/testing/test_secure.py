"""Secure clusters: TLS, logins and permissions with one argument, for all clients and with cut connections."""

from pathlib import Path

import pytest

from raftlog.client import BrokerAddresses
from raftlog.client.sync import BrokerClient, Consumer, Producer
from raftlog.errors import AuthenticationFailed
from raftlog.testing import BrokerFailed, Cluster
from raftlog.testing.http import ask
from tests.forked.commands import run_raftlog


def test_clients_use_a_secure_cluster(tmp_path: Path) -> None:
    with Cluster(3, secure=True, data_dir=tmp_path) as cluster:
        assert all(address.startswith("https://127.0.0.1:") for address in cluster.addresses)
        with BrokerClient(cluster.access) as client:
            client.create_topic("orders", 1, 3)
            assert sorted(each.http or "" for each in client.brokers()) == sorted(cluster.addresses)
        cluster.cut([cluster.leader("orders")], [each for each in cluster.nodes if each != cluster.leader("orders")])
        with Producer(cluster.access) as producer:
            producer.send_and_wait("orders", b"one")
        cluster.heal()
        cluster.wait_healthy()
        with Consumer(cluster.access, "orders") as consumer:
            assert next(consumer).value == b"one"
        security = cluster.security
        assert security is not None
        stranger = BrokerAddresses(cluster.addresses, ca=security.ca)
        with BrokerClient(stranger) as client, pytest.raises(AuthenticationFailed):
            client.brokers()
        with pytest.raises(BrokerFailed, match="CERTIFICATE_VERIFY_FAILED"):
            ask(cluster.addresses[0], "/v1/status/ready")
        flags = ("--ca", security.ca, "--user", security.user, "--password-file", security.password_file)
        listed = run_raftlog("topic", "list", "--bootstrap", cluster.bootstrap, *flags)
        assert (listed.returncode, "orders" in listed.stdout) == (0, True), listed.stderr
        assert Path(security.password_file).stat().st_mode & 0o077 == 0
    assert cluster.security is not None


def test_brokers_use_tls_between_each_other_without_cuts() -> None:
    with Cluster(2, secure=True, with_cuts=False, with_gossip=False) as cluster:
        added = cluster.add_node()
        cluster.wait_healthy()
        assert added.get("/v1/brokers")[2]["is_alive"]
