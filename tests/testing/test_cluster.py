"""Clusters of one broker: processes, ports, logs, errors; for faults see tests/integration."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from raftlog.testing import BrokerFailed, BrokerNotReady, BrokerProcess, Cluster
from raftlog.testing.environment import merge_environments
from raftlog.testing.ports import address_of, reserve_port


@pytest.mark.usefixtures("own_interpreters")
def test_a_cluster_of_one_broker_serves_clients(tmp_path: Path) -> None:
    with Cluster(1, data_dir=tmp_path) as cluster:
        node = cluster.nodes[1]
        assert cluster.addresses == [node.http]
        assert cluster.bootstrap == node.http
        assert node.get("/v1/status/ready")["status"] == "ready"
        assert (cluster.kafka, node.ready["kafka"]) == (node.kafka, node.kafka)
        cluster.wait_ready()
        assert node.is_running
        assert node.exit_code is None
        assert (node.rpc, node.rpc_bound) == (None, None)
    assert not node.is_running
    assert (tmp_path / "1" / ".raftlog").is_dir()
    assert (tmp_path / "1.log").is_file()


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_brokers_end_with_their_program(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import time\n"
        "from raftlog.testing import Cluster\n"
        f"with Cluster(2, data_dir={str(tmp_path)!r}, with_cuts=False) as cluster:\n"
        "    print(*(node.pid for node in cluster.nodes.values()), flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        brokers = [os.pidfd_open(int(pid)) for pid in program.stdout.readline().split()]
        program.send_signal(number)
        assert program.wait(30) == -number
    assert len(brokers) == 2
    for broker in brokers:
        ended, _, _ = select.select([broker], [], [], 10)
        os.close(broker)
        assert ended, "a broker lives on"


def test_the_temporary_directory_is_deleted_with_the_cluster() -> None:
    with Cluster(1) as cluster:
        assert (cluster.directory / "1").is_dir()
    assert not cluster.directory.exists()


@pytest.mark.usefixtures("own_interpreters")
def test_a_killed_broker_restarts_at_the_same_address() -> None:
    with Cluster(1) as cluster:
        node = cluster.nodes[1]
        http, first = node.http, node.pid
        node.kill()
        assert (node.is_running, node.exit_code) == (False, -9)
        with pytest.raises(BrokerFailed, match="Connection refused"):
            node.get("/topics")
        node.kill()  # of one that does not run: nothing
        assert node.start()["http"] == http
        assert node.pid != first
        assert node.stop() == 0
        assert node.exit_code == 0


def test_a_paused_broker_answers_after_it_resumes() -> None:
    with Cluster(1) as cluster:
        node = cluster.nodes[1]
        node.pause()
        assert node.is_paused
        with pytest.raises(BrokerFailed, match="timed out"):
            node.get("/topics", timeout_s=0.1)
        cluster.wait_ready()  # it is not waited for
        node.resume()
        assert node.get("/topics") == []
        node.pause()
        assert node.stop() == 0, "a paused broker can be stopped"


def test_a_failed_start_is_reported_with_the_reason() -> None:
    expected = r"node 1 did not start: it ended; its log ends:\n.*unknown setting 'x'"
    with pytest.raises(BrokerNotReady, match=expected), Cluster(1, serve_flags=["--topic-config", "x=1"]):
        pass


def test_a_broker_with_a_slow_start_is_killed(tmp_path: Path) -> None:
    with BrokerProcess(str(tmp_path / "data")) as broker:
        with pytest.raises(BrokerNotReady, match=r"not ready within 0\.001 s"):
            broker.start(timeout_s=0.001)
        assert not broker.is_running
        broker.start()


def test_settings_in_the_environment_do_not_reach_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAFTLOG_NODE_ID", "77")
    with Cluster(1) as cluster:
        assert cluster.nodes[1].get("/v1/brokers")[0]["node_id"] == 1


@pytest.mark.usefixtures("own_interpreters")
def test_the_environment_is_computed_at_each_start(tmp_path: Path) -> None:
    asked: list[int] = []

    def environment(node: int) -> dict[str, str]:
        asked.append(node)
        return {"LIVES": str(len(asked))}

    program = ("-P", "-c", "import runpy; runpy.run_module('raftlog.cli', run_name='__main__')")
    with Cluster(1, environment=environment, program=program) as cluster:
        node = cluster.nodes[1]
        assert node.command[1:5] == [*program, "serve"]
        node.restart()
        assert b"LIVES=2" in Path(f"/proc/{node.pid}/environ").read_bytes().split(b"\0")
    assert asked == [1, 1]


def test_preloaded_libraries_are_joined() -> None:
    assert merge_environments({"LD_PRELOAD": "/a.so", "A": "1"}, {"B": "2"}, {"LD_PRELOAD": "/b.so", "A": "2"}) == {
        "LD_PRELOAD": "/a.so:/b.so",
        "A": "2",
        "B": "2",
    }
    assert merge_environments({"LD_PRELOAD": ""}, {"LD_PRELOAD": "/b.so"}, {"LD_PRELOAD": ""}) == {
        "LD_PRELOAD": "/b.so"
    }


def test_a_brokers_log_is_kept_over_restarts() -> None:
    with Cluster(1) as cluster:
        node = cluster.nodes[1]
        node.kill()
        host, _, port = node.http.rpartition(":")
        with socket.create_server((host, int(port))), pytest.raises(BrokerNotReady, match="another program"):
            node.start()
        node.start()
        assert "another program listens there" in node.log_text()
        assert cluster.logs() == {1: node.log_text()}


def test_a_cluster_of_one_has_no_cuts_and_no_joins() -> None:
    with Cluster(1) as cluster:
        with pytest.raises(BrokerFailed, match="no network fault is possible"):
            cluster.heal()
        with pytest.raises(BrokerFailed, match="no node can join"):
            cluster.add_node()


def test_an_unknown_leader_is_reported() -> None:
    with Cluster(1) as cluster, pytest.raises(BrokerFailed, match="nowhere/0 has no leader"):
        cluster.leader("nowhere", timeout_s=0.0)


def test_many_clusters_start_at_once() -> None:
    """Each broker gets its own port."""
    addresses: list[str] = []

    def run() -> None:
        with Cluster(1) as cluster:
            cluster.nodes[1].restart()
            addresses.extend(cluster.addresses)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(addresses)) == 4


def test_a_held_port_is_not_given_to_others_and_can_be_used() -> None:
    with reserve_port() as held:
        address = address_of(held)
        host, _, port = address.rpartition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))
        with socket.create_server((host, int(port))), socket.create_connection((host, int(port))):
            pass
        with pytest.raises(OSError, match="in use"), socket.socket() as another:
            another.bind((host, int(port)))


def test_the_testing_package_does_not_import_pytest() -> None:
    code = "import sys, raftlog.testing; print('pytest' in sys.modules, 'raftlog.partitions' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, check=True)
    assert done.stdout.split() == [b"False", b"False"]


@pytest.mark.usefixtures("own_interpreters")
def test_stopped_brokers_leave_no_descriptor_open(tmp_path: Path) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    with Cluster(1, data_dir=tmp_path) as cluster:
        cluster.nodes[1].restart()
        cluster.nodes[1].kill()
    assert sorted(os.listdir("/proc/self/fd")) == before
