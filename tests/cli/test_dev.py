"""`raftlog dev`: addresses and directories of its nodes, and settings kept from an earlier run."""

import json
import os
import shlex
import signal
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from cryptography import x509

from raftlog.cli.dev.plan import check_plan
from raftlog.cli.dev.verb import plan_nodes
from raftlog.cli.outcome import CommandFailed
from raftlog.security.authority import PrivateAuthority
from raftlog.testing.http import ask


def test_nodes_have_consecutive_ports_and_own_directories(tmp_path: Path) -> None:
    nodes = plan_nodes(3, tmp_path, 9000, 1)
    assert [node.http for node in nodes] == ["127.0.0.1:9010", "127.0.0.1:9020", "127.0.0.1:9030"]
    assert (nodes[1].kafka, nodes[1].rpc, nodes[1].gossip) == ("127.0.0.1:9021", "127.0.0.1:9022", "127.0.0.1:9023")
    assert [node.data_dir for node in nodes] == [str(tmp_path / f"node-{number}") for number in (1, 2, 3)]
    command = " ".join(nodes[2].child.command)
    assert "--seeds 127.0.0.1:9012,127.0.0.1:9022,127.0.0.1:9032" in command
    assert "--kafka 127.0.0.1:9031 --node-id 3" in command


def test_ports_of_workers_lie_between_those_of_nodes(tmp_path: Path) -> None:
    nodes = plan_nodes(2, tmp_path, 9000, 3)
    assert [node.http for node in nodes] == ["127.0.0.1:9010", "127.0.0.1:9040"]
    assert nodes[0].child.command[-2:] == ["--workers", "3"]


def test_a_directory_keeps_its_addresses(tmp_path: Path) -> None:
    check_plan(tmp_path, nodes=3, base_port=9000, workers=1)
    check_plan(tmp_path, nodes=3, base_port=9000, workers=1)
    with pytest.raises(CommandFailed, match="--nodes 3 --base-port 9000 --workers 1"):
        check_plan(tmp_path, nodes=3, base_port=9100, workers=1)
    (tmp_path / "dev.json").write_text("?")
    with pytest.raises(CommandFailed, match="cannot be read"):
        check_plan(tmp_path, nodes=3, base_port=9000, workers=1)


def test_a_base_port_without_room_for_all_nodes_is_refused(run: Any, tmp_path: Path) -> None:
    done = run("dev", "--nodes", "99", "--base-port", "65000", "--data-dir", str(tmp_path / "dev"), expect=2)
    assert b"no room" in done.stderr
    assert not (tmp_path / "dev").exists()


def test_dev_starts_a_cluster_with_one_command(spawn: Any, run: Any, tmp_path: Path, base_port: int) -> None:
    """The cluster is writable once it is reported; a crashed node is reported and restartable; Ctrl-C stops all."""
    flags = ("--data-dir", str(tmp_path / "dev"), "--base-port", str(base_port), "--json")
    process = spawn("dev", *flags)
    assert process.stderr.readline() == b"starting 3 nodes\n"
    line = json.loads(process.stdout.readline())
    nodes = line["nodes"]
    assert [node["node_id"] for node in nodes] == [1, 2, 3]
    at = ("--bootstrap", ",".join(node["http"] for node in nodes))
    brokers = json.loads(run("broker", "list", "--json", *at).stdout)
    assert [broker["kafka_addresses"] for broker in brokers] == [{"kafka": node["kafka"]} for node in nodes]
    run("topic", "create", "t", *at)
    run("produce", "t", *at, stdin=b"one\ntwo\n")
    os.kill(nodes[1]["pid"], signal.SIGKILL)
    assert f"node 2 (pid {nodes[1]['pid']}) ended, killed by SIGKILL" in process.stderr.readline().decode()
    run("produce", "t", *at, stdin=b"three\n")
    again = subprocess.Popen(nodes[1]["command"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with again:
        assert again.stdout is not None
        assert json.loads(again.stdout.readline())["node_id"] == 2
        info = json.loads(run("cluster", "info", "--json", *at).stdout)
        assert (info["cluster_id"], len(info["brokers"])) == (line["cluster_id"], 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        again.terminate()
        assert again.wait(20) == 0
    process = spawn("dev", *flags)
    again_line = process.stdout.readline()
    assert again_line, process.stderr.read().decode()
    assert json.loads(again_line)["cluster_id"] == line["cluster_id"]
    assert run("consume", "t", "--no-follow", *at).stdout == b"one\ntwo\nthree\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_a_secure_cluster_prints_how_to_connect(spawn: Any, run: Any, tmp_path: Path, base_port: int) -> None:
    """TLS on every address, logins and permissions; the password survives restarts, and is in no argument or log."""
    directory = tmp_path / "dev"
    flags = ("--secure", "--data-dir", str(directory), "--base-port", str(base_port), "--json")
    process = spawn("dev", *flags)
    line = json.loads(process.stdout.readline())
    assert (line["user"], Path(line["password_file"]).parent) == ("admin", directory)
    assert os.stat(line["password_file"]).st_mode & 0o777 == 0o600
    password = Path(line["password_file"]).read_text().strip()
    at = ("--bootstrap", ",".join(node["http"] for node in line["nodes"]), "--ca", line["ca"])
    login = ("--user", line["user"], "--password-file", line["password_file"])
    assert all(node["http"].startswith("https://127.0.0.1:") for node in line["nodes"])
    run("topic", "create", "t", *at, *login)
    run("produce", "t", *at, *login, stdin=b"one\n")
    assert b"requires a login" in run("topic", "list", *at, expect=1).stderr
    run("user", "create", "bob", "--password-stdin", *at, *login, stdin=b"secret\n")
    (tmp_path / "bob").write_text("secret\n")
    bob = ("--user", "bob", "--password-file", str(tmp_path / "bob"))
    assert b"bob may not DESCRIBE" in run("produce", "t", *at, *bob, stdin=b"x\n", expect=1).stderr
    (tmp_path / "bob").write_text("wrong\n")
    assert b"error" in run("topic", "list", *at, *bob, expect=1).stderr
    _use_with_kafka(line, password)
    store = str(tmp_path / "backup")
    assert b"requires a login" in run("backup", store, *at, expect=1).stderr
    run("backup", store, *at, *login)
    run("restore", store, "--rename", "t=copy", *at, *login)
    assert run("consume", "copy", "--no-follow", *at, *login).stdout.splitlines()[0] == b"one"
    _use_with_kcat(line, password, PrivateAuthority(str(tmp_path / "other")).certificate)
    done = run("cluster", "rolling-restart", "--data-dir", str(directory), "--only", "1")
    assert b"restart" in done.stdout + done.stderr
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    process = spawn("dev", *flags)
    again = json.loads(process.stdout.readline())
    assert again["cluster_id"] == line["cluster_id"]
    assert run("consume", "t", "--no-follow", *at, *login).stdout.splitlines()[0] == b"one"
    assert password not in json.dumps(again)
    assert not [path for path in directory.glob("*.log") if password in path.read_text()]
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert b"created with --nodes 3" in run("dev", *flags[1:], expect=1).stderr


@pytest.mark.slow
def test_workers_of_a_secure_cluster_use_tls_between_each_other(
    spawn: Any, run: Any, tmp_path: Path, base_port: int
) -> None:
    """One certificate is for all workers of a node, and names each of them."""
    directory = tmp_path / "dev"
    flags = ("--secure", "--nodes", "1", "--workers", "2", "--data-dir", str(directory), "--json")
    process = spawn("dev", *flags, "--base-port", str(base_port))
    line = json.loads(process.stdout.readline())
    at = ("--bootstrap", line["nodes"][0]["http"], "--ca", line["ca"])
    login = ("--user", line["user"], "--password-file", line["password_file"])
    brokers = json.loads(run("broker", "list", *at, *login, "--json").stdout)
    assert sorted(each["node_id"] for each in brokers) == [1, 1001]
    for each in brokers:
        assert each["is_alive"]
        assert each["http_address"].startswith("https://")
        rpc = (each["internal_rpc_address"], each["internal_rpc_port"])
        names = x509.load_pem_x509_certificate(ssl.get_server_certificate(rpc).encode()).extensions
        uris = names.get_extension_for_class(x509.SubjectAlternativeName).value
        found = uris.get_values_for_type(x509.UniformResourceIdentifier)
        assert found == ["raftlog:node:1", "raftlog:node:1001"]
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def _settings(line: dict[str, Any], mechanism: str, password: str) -> dict[str, Any]:
    """Return the settings of librdkafka for a login over TLS."""
    return {
        "bootstrap.servers": ",".join(node["kafka"] for node in line["nodes"]),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": line["ca"],
        "sasl.mechanism": mechanism,
        "sasl.username": line["user"],
        "sasl.password": password,
    }


def _use_with_kafka(line: dict[str, Any], password: str) -> None:
    """Write a record with each mechanism."""
    for mechanism in MECHANISMS:
        producer = confluent_kafka.Producer(_settings(line, mechanism, password))
        producer.produce("t", mechanism.encode())
        assert producer.flush(20) == 0


def _use_with_kcat(line: dict[str, Any], password: str, other_authority: str) -> None:
    """Write and read with one mechanism; other passwords, users and authorities are refused."""
    login = _settings(line, MECHANISMS[-1], password)
    assert _run_kcat(login, "-P", "-t", "t", given="by kcat").returncode == 0
    read = _run_kcat(login, "-C", "-t", "t", "-o", "beginning", "-e", "-q")
    assert "by kcat" in read.stdout.splitlines()
    for changed, reason in (
        ({"sasl.password": "wrong"}, "authentication"),
        ({"sasl.username": "nobody"}, "authentication"),
        ({"ssl.ca.location": other_authority}, "certificate verify failed"),
    ):
        refused = _run_kcat({**login, **changed}, "-L", "-m", "3")
        assert refused.returncode != 0
        assert reason in refused.stderr.lower(), changed


def _run_kcat(settings: dict[str, Any], *flags: str, given: str = "") -> subprocess.CompletedProcess[str]:
    options = [text for name, value in settings.items() for text in ("-X", f"{name}={value}")]
    command = ["kcat", *options, *flags]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)


def test_the_printed_command_restarts_a_killed_node(spawn: Any, run: Any, tmp_path: Path, base_port: int) -> None:
    flags = ("--data-dir", str(tmp_path / "my dev"), "--base-port", str(base_port))
    process = spawn("dev", *flags)
    lines: list[str] = []
    while not lines or lines[-1] != "Ctrl-C stops all nodes.":
        lines.append(process.stdout.readline().decode().rstrip("\n"))
        assert not process.poll(), lines
    assert lines[-2] == f"To restart a killed node: raftlog dev --restart NODE --data-dir '{tmp_path / 'my dev'}'"
    assert process.stderr.readline() == b"starting 3 nodes\n"
    pid, http = next((line.split()[5], line.split()[1]) for line in lines if line.split()[:1] == ["2"])
    os.kill(int(pid), signal.SIGKILL)
    report, _, command = process.stderr.readline().decode().strip().partition(" To restart it: ")
    assert report == f"node 2 (pid {pid}) ended, killed by SIGKILL; the others continue."
    done = run(*shlex.split(command)[1:])
    assert done.stdout.startswith(b"node 2 was restarted (pid ")
    assert ask(http, "/v1/status/ready")[0] == 200
    again = json.loads(run(*shlex.split(command)[1:], "--json").stdout)
    assert (again["node_id"], str(again["pid"]) != pid) == (2, True)
    assert b"node 4 does not exist" in run("dev", "--restart", "4", *flags[:2], expect=1).stderr
    assert process.stderr.readline().startswith(b"node 2 was restarted")
    assert process.stderr.readline().startswith(b"node 2 was restarted")
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == b"stopping all nodes\n"
    assert process.wait(20) == 0
    assert b"no `raftlog dev` runs in" in run("dev", "--restart", "2", *flags[:2], expect=1).stderr


def test_a_port_in_use_stops_all_nodes(run: Any, tmp_path: Path, base_port: int) -> None:
    with socket.create_server(("127.0.0.1", base_port + 20)):
        done = run("dev", "--data-dir", str(tmp_path / "dev"), "--base-port", str(base_port), expect=1)
    assert b"node 2 did not start: exit code 1: " in done.stderr
    assert b"another program listens there" in done.stderr
