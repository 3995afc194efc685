"""The supervisor of `serve --workers` and the flags of its workers, with programs in place of brokers."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from raftlog.cli.serve import workers
from raftlog.cli.serve.workers import secret_flags, worker_flags
from raftlog.cluster_secret import create_secret, read_secret
from raftlog.testing.ports import address_of, reserve_port

GIVEN = {
    "workers": 3,
    "node_id": 2,
    "data_dir": "/data",
    "http": "127.0.0.1:8092",
    "rpc": "127.0.0.1:8094",
    "kafka": (),
    "advertise_http": None,
    "advertise_rpc": None,
    "gossip": None,
    "advertise_gossip": None,
    "seeds": "a:1,b:2",
    "host_label": "",
    "cluster_secret_file": None,
    "log_format": "json",
}

WORKER = """
import json, os, signal, sys
number = sys.argv[1]
for stop in (signal.SIGTERM, signal.SIGINT):
    signal.signal(stop, lambda *_: os._exit(0))
print(json.dumps({"event": "ready", "node_id": int(number), "pid": os.getpid(), "cluster_id": "c"}), flush=True)
while True:
    signal.pause()
"""
SUPERVISOR = """
import asyncio, sys
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.serve.service_manager import ServiceManager
from raftlog.cli.serve.workers import _WorkerSupervisor
commands = [[sys.executable, "-c", script, str(number)] for number, script in enumerate(sys.argv[2:], start=1)]
try:
    asyncio.run(_WorkerSupervisor(commands, sys.argv[1], ServiceManager.take()).run())
except CommandFailed as failed:
    print(failed, file=sys.stderr)
    sys.exit(failed.exit_code)
"""


def worker_flags_of(worker: int, **changes: Any) -> dict[str, str]:
    flags = worker_flags({**GIVEN, **changes}, worker)
    return dict(zip(flags[::2], flags[1::2], strict=True))


def test_the_first_worker_has_the_configured_addresses() -> None:
    assert worker_flags_of(1) == {
        "--workers": "1",
        "--node-id": "2",
        "--data-dir": "/data",
        "--host-label": "node-2",
        "--http": "127.0.0.1:8092",
        "--rpc": "127.0.0.1:8094",
        "--kafka-port-shift": "0",
    }


def test_further_workers_have_shifted_ports_and_the_same_host_label() -> None:
    assert worker_flags_of(3, host_label="rack-7", advertise_rpc="[::1]:9", advertise_http="here:80") == {
        "--workers": "1",
        "--node-id": "2002",
        "--data-dir": "/data/.raftlog/workers/3",
        "--host-label": "rack-7",
        "--http": "127.0.0.1:8112",
        "--rpc": "127.0.0.1:8114",
        "--advertise-http": "here:100",
        "--advertise-rpc": "[::1]:29",
        "--kafka-port-shift": "20",
    }


def test_workers_without_other_brokers_use_the_default_ports_of_kafka() -> None:
    assert "--kafka-default" not in worker_flags_of(2)
    assert worker_flags_of(1, rpc=None)["--kafka-default"] == "127.0.0.1:9092"
    assert worker_flags_of(3, rpc=None)["--kafka-default"] == "127.0.0.1:9112"
    given = worker_flags_of(3, rpc=None, kafka=("127.0.0.1:7000",))
    assert "--kafka-default" not in given
    assert given["--kafka-port-shift"] == "20"


def test_each_worker_has_its_own_gossip_port_unless_gossip_is_off() -> None:
    assert worker_flags_of(2, gossip="127.0.0.1:9000", advertise_gossip="outside:90") | {
        "--gossip": "127.0.0.1:9010"
    } == (worker_flags_of(2) | {"--gossip": "127.0.0.1:9010", "--advertise-gossip": "outside:100"})
    assert "--gossip" not in worker_flags_of(2, gossip="off")
    assert "--gossip" not in worker_flags_of(2)


def test_without_seeds_further_workers_join_the_first() -> None:
    assert "--seeds" not in worker_flags_of(1, seeds="", rpc=None)
    assert worker_flags_of(1, rpc=None)["--rpc"] == "127.0.0.1:8094"
    assert worker_flags_of(2, seeds="", rpc=None)["--seeds"] == "127.0.0.1:8094"
    assert worker_flags_of(2, seeds="", advertise_rpc="outside:7")["--seeds"] == "outside:7"


def test_workers_need_a_fixed_rpc_port() -> None:
    with pytest.raises(click.UsageError, match="--rpc"):
        worker_flags_of(1, http="127.0.0.1:0", rpc=None)
    with pytest.raises(click.UsageError, match="--rpc"):
        worker_flags_of(2, rpc="127.0.0.1:0")
    assert worker_flags_of(2, http="127.0.0.1:0")["--http"] == "127.0.0.1:0"


def start_supervisor(line_format: str, *scripts: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", SUPERVISOR, line_format, *scripts]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_until_ready(process: "subprocess.Popen[str]") -> list[int]:
    """Wait until all workers are ready; return their process ids."""
    assert process.stdout is not None
    line = json.loads(process.stdout.readline())
    assert (line["event"], line["pid"], line["node_id"]) == ("ready", process.pid, 1)
    return [worker["pid"] for worker in line["workers"]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_workers(number: signal.Signals) -> None:
    with start_supervisor("json", WORKER, WORKER) as process:
        pids = wait_until_ready(process)
        process.send_signal(number)
        assert process.wait(10) == 0
    assert not any(map(is_running, pids))


def test_ctrl_c_in_a_terminal_reaches_all_workers() -> None:
    with start_supervisor("json", WORKER, WORKER) as process:
        wait_until_ready(process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(10) == 0


def test_a_killed_worker_is_restarted_a_few_times() -> None:
    script = WORKER + "os.kill(os.getpid(), signal.SIGKILL)\n"
    once = script.replace("while True:\n    signal.pause()", "")
    with start_supervisor("json", WORKER, once) as process:
        wait_until_ready(process)
        assert process.wait(20) == 1
        assert process.stderr is not None
        said = process.stderr.read().splitlines()
    assert said[:-1] == ["worker 2 ended (killed by SIGKILL); restarting it"] * workers.RESTARTS_MAX
    assert "after 3 restarts in 60 s" in said[-1]


def test_a_failing_worker_stops_all_workers() -> None:
    gives_up = "import sys; sys.exit('error: the disk is not mine')"
    with start_supervisor("json", WORKER, gives_up) as process:
        assert process.wait(10) == 1
        assert process.stderr is not None
        said = process.stderr.read().splitlines()
    assert said == ["error: the disk is not mine", "worker 2 did not start: exit code 1"]


def test_the_ready_line_lists_the_workers() -> None:
    says = "print('raftlog is ready: node {} serves', flush=True); import signal; signal.pause()"
    with start_supervisor("text", says.format(1), says.format(2)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "raftlog is ready: 2 workers: node 1 serves; node 2 serves\n"
        process.kill()


def test_workers_exit_with_their_supervisor() -> None:
    with start_supervisor("json", WORKER, WORKER) as process:
        watched = [os.pidfd_open(pid) for pid in wait_until_ready(process)]
        process.kill()
        waiting = set(watched)
        while waiting:
            ended, _, _ = select.select(list(waiting), [], [], 10)
            assert ended, "a worker lives on"
            waiting -= set(ended)
        for descriptor in watched:
            os.close(descriptor)


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_workers_without_other_peers_generate_a_secret(tmp_path: Path) -> None:
    given = {**GIVEN, "data_dir": str(tmp_path / "data")}
    assert secret_flags(given) == [], "with --rpc it has to be given"
    flag, path = secret_flags({**given, "rpc": None})
    assert flag == "--cluster-secret-file"
    secret = read_secret(path)
    assert secret.warning == ""
    assert secret_flags({**given, "rpc": None}) == [flag, path]
    assert read_secret(path) == secret
    assert secret_flags({**given, "rpc": None, "cluster_secret_file": "x"}) == []


def test_workers_of_one_host_form_a_cluster(spawn: Any, run: Any, tmp_path: Path) -> None:
    """Every worker accepts every request; no partition has two replicas on the host."""
    with reserve_port() as http, reserve_port() as rpc:
        ports = [address_of(held) for held in (http, rpc)]
    create_secret(secret := str(tmp_path / "secret"))
    flags = ("--data-dir", str(tmp_path / "data"), "--http", ports[0], "--rpc", ports[1], "--log-format", "json")
    kafka = ("--kafka", "in=127.0.0.1:0", "--kafka", "out=127.0.0.1:0")
    process = spawn("serve", "--workers", "2", "--cluster-secret-file", secret, *flags, *kafka)
    line = json.loads(process.stdout.readline())
    first, second = line["workers"]
    assert (first["node_id"], second["node_id"]) == (1, 1001)
    assert (first["cluster_id"], line["pid"]) == (second["cluster_id"], process.pid)
    assert second["data_dir"] == str(tmp_path / "data" / ".raftlog" / "workers" / "2")
    listening = [
        broker["kafka_addresses"]
        for broker in json.loads(run("broker", "list", "--json", "--bootstrap", first["http"]).stdout)
    ]
    assert [each["in"] for each in listening] == [worker["kafka"] for worker in line["workers"]]
    run("topic", "create", "t", "-p", "4", "--bootstrap", first["http"])
    for worker in (first, second):
        run("produce", "t", "--bootstrap", worker["http"], stdin=b"a\nb\nc\nd\n")
    described = json.loads(run("topic", "describe", "t", "--json", "--bootstrap", second["http"]).stdout)
    assert sorted(partition["replicas"] for partition in described["partitions"]) == [[1], [1], [1001], [1001]]
    assert sum(partition["end_offset"] for partition in described["partitions"]) == 8
    os.kill(second["pid"], signal.SIGKILL)
    said = process.stderr.readline()
    while not said.startswith(b"worker 2 "):  # between lines of the workers' logs
        said = process.stderr.readline()
    assert said == b"worker 2 ended (killed by SIGKILL); restarting it\n"
    process.terminate()
    assert process.wait(20) == 0
