"""`raftlog doctor`: one finding for each check, advice where something is wrong, exit 1 only if no broker can start."""

import json
import os
import resource
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from raftlog.cli.doctor import disk_checks, network_checks, system_checks
from raftlog.cli.doctor.findings import OK, PROBLEM, WARNING, Finding
from raftlog.cli.entry import raftlog
from raftlog.testing import BrokerProcess
from raftlog.testing.ports import reserve_port

CHECKS = {
    "version",
    "packages",
    "clock",
    "open files",
    "memory",
    "data directory",
    "disk space",
    "file system",
    "syncs",
    "http address",
}


def examine(data_dir: Path, *args: str, **variables: str) -> tuple[int, dict[str, Finding]]:
    """Return exit code and findings by check; the address is a free port unless one is given."""
    env = {"RAFTLOG_HTTP": "127.0.0.1:0", "RAFTLOG_KAFKA": "none", **variables}
    done = CliRunner(env=env).invoke(raftlog, ["doctor", "--json", "--data-dir", str(data_dir), *args])
    found = json.loads(done.stdout.splitlines()[0])
    assert found["can_start"] == (done.exit_code == 0), done.output
    return done.exit_code, {row["check"]: Finding(**row) for row in found["findings"]}


def test_a_machine_that_can_run_a_broker(tmp_path: Path) -> None:
    began = time.monotonic()
    code, found = examine(tmp_path / "data")
    assert time.monotonic() - began < 30
    assert code == 0
    assert found.keys() == CHECKS
    assert {name for name, each in found.items() if each.level == PROBLEM} == set()
    assert "will be created" in found["data directory"].text
    assert list(tmp_path.iterdir()) == []
    assert all(each.advice for each in found.values() if each.level != OK)


def test_it_runs_without_arguments_input_or_broker(run: Any) -> None:
    done = run("doctor", env={"RAFTLOG_HTTP": "127.0.0.1:0"})
    assert b"a broker can start" in done.stdout


def test_a_running_broker_is_recognized(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        code, found = examine(tmp_path / "data", RAFTLOG_HTTP=broker.address)
        assert (code, found["http address"].level) == (0, OK)
        assert "in use by a running broker" in found["data directory"].text
        code, found = examine(tmp_path / "other", RAFTLOG_HTTP=broker.address)
        assert (code, found["http address"].level) == (1, PROBLEM)
        assert "give another port with --http" in found["http address"].advice
    code, found = examine(tmp_path / "data")
    assert found["data directory"].text == str(tmp_path / "data")
    code, found = examine(tmp_path / "data", RAFTLOG_NODE_ID="7")
    assert (code, found["data directory"].level) == (1, PROBLEM)
    assert "belongs to node 1, and this is node 7" in found["data directory"].text


def test_obstacles_to_a_start_are_problems(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    code, found = examine(file / "below")
    assert (code, found["data directory"].level) == (1, PROBLEM)
    newer = tmp_path / "newer"
    (newer / ".raftlog").mkdir(parents=True)
    (newer / ".raftlog" / "meta").write_text("nonsense")
    code, found = examine(newer)
    assert (code, found["data directory"].level) == (1, PROBLEM)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine")
    code, found = examine(foreign)
    assert (code, found["data directory"].level) == (1, PROBLEM)
    assert "is not empty (it holds 'thesis.txt')" in found["data directory"].text
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "not-mounted")
    code, found = examine(link)
    below, _ = examine(link / "data")
    assert below == 1
    assert (code, found["data directory"].level) == (1, PROBLEM)
    assert "not-mounted, which does not exist" in found["data directory"].text
    code, found = examine(tmp_path / "data", RAFTLOG_HTTP="192.0.2.1:8082", RAFTLOG_INSECURE="true")
    assert (code, found["http address"].level) == (1, PROBLEM)
    assert "address of this machine" in found["http address"].advice
    config = tmp_path / "raftlog.toml"
    config.write_text("nod-id = 1")
    code, found = examine(tmp_path / "data", "--config", str(config))
    assert (code, found["settings"].level) == (1, PROBLEM)
    assert "did you mean 'node-id'?" in found["settings"].text


def test_a_taken_kafka_port_of_the_default_is_only_a_warning() -> None:
    with reserve_port() as taken:
        taken.listen()
        port = taken.getsockname()[1]
        for is_optional, level in ((True, WARNING), (False, PROBLEM)):
            wanted = network_checks.WantedAddress("kafka", "127.0.0.1", port, is_optional)
            (found,) = network_checks.check_addresses([wanted], is_running=False)
            assert (found.level, "--kafka" in found.advice) == (level, True)


def test_addresses_that_exclude_each_other_are_problems(tmp_path: Path) -> None:
    with reserve_port() as reserved:
        port = reserved.getsockname()[1]
    code, found = examine(tmp_path / "data", RAFTLOG_HTTP=f"127.0.0.1:{port}", RAFTLOG_KAFKA=f"127.0.0.1:{port}")
    (kafka,) = (each for each in found.values() if "is also the http address" in each.text)
    assert (code, kafka.level, found["http address"].level) == (1, PROBLEM, OK)
    pairs = [("127.0.0.1", "0.0.0.0", True), ("127.0.0.1", "127.0.0.2", False), ("::", "127.0.0.1", True)]
    for one, other, expected in pairs:
        first, second = (network_checks.WantedAddress("a", host, port) for host in (one, other))
        assert first.overlaps(second) is second.overlaps(first) is expected


def test_the_gossip_address_is_checked_for_both_kinds_of_sockets(tmp_path: Path) -> None:
    secret = tmp_path / "cluster.secret"
    assert CliRunner().invoke(raftlog, ["cluster", "secret", "create", str(secret)]).exit_code == 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        gossip = f"127.0.0.1:{taken.getsockname()[1]}"
        variables = {"RAFTLOG_RPC": "127.0.0.1:0", "RAFTLOG_CLUSTER_SECRET_FILE": str(secret)}
        code, found = examine(tmp_path / "data", RAFTLOG_GOSSIP=gossip, **variables)
    assert (code, found["gossip address"].level) == (1, PROBLEM)
    assert "--gossip" in found["gossip address"].advice


def test_files_of_another_user_are_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "data" / ".raftlog" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    monkeypatch.setattr(os, "access", lambda path, _mode: path != lock)  # tests run as root, too
    code, found = examine(tmp_path / "data")
    assert (code, found["data directory"].level) == (1, PROBLEM)
    assert f"cannot read and write {lock}" in found["data directory"].text
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path)
    code, found = examine(tmp_path / "none" / "data")
    assert (code, found["data directory"].level) == (1, PROBLEM)
    assert f"or create it in {tmp_path}" in found["data directory"].text
    assert found["data directory"].advice.endswith(f"-m 700 {tmp_path / 'none' / 'data'}")


def test_certificates_are_reported_before_their_end() -> None:
    now = datetime.now(UTC)
    ends = {"http": now + timedelta(days=90), "rpc": now + timedelta(days=3), "kafka": now - timedelta(days=1)}
    found = list(network_checks.check_certificates(ends))
    assert [each.level for each in found] == [OK, WARNING, WARNING]
    assert "expired" in found[2].text


@pytest.mark.parametrize(("limit", "level"), [(100, PROBLEM), (1_024, WARNING), (4_096, OK), (-1, OK)])
def test_low_limits_of_open_files_are_reported(monkeypatch: pytest.MonkeyPatch, limit: int, level: str) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert system_checks.check_open_files().level == level


def test_slow_and_impossibly_fast_syncs_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now_s = sync_s = 0.0

    def sync(file: int) -> None:
        nonlocal now_s
        now_s += sync_s

    clock = SimpleNamespace(monotonic=lambda: now_s, perf_counter=lambda: now_s)
    monkeypatch.setattr(disk_checks, "time", clock)
    monkeypatch.setattr(disk_checks.os, "fdatasync", sync)
    for sync_s, level, word in (  # noqa: B007 - `sync` reads it
        (0.021, WARNING, "faster disk"),
        (0.019, OK, ""),
        (0.00003, OK, ""),
        (0.00001, WARNING, "no disk is that fast"),
    ):
        found = disk_checks.check_syncs(tmp_path)
        assert found.level == level, found
        assert word in found.advice


def test_clocks_and_memory_are_compared_with_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    for status, level in ((0x40, WARNING), (0x2001, OK), (None, OK)):
        monkeypatch.setattr(system_checks, "_read_clock_status", lambda status=status: status)
        assert system_checks.check_clock().level == level
    monkeypatch.setattr(system_checks, "_read_available_memory", lambda: 100 << 20)
    assert system_checks.check_memory(256 << 20).level == WARNING
    assert system_checks.check_memory(0).advice != ""


def test_the_memory_limit_of_a_container_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(system_checks, "_CGROUPS", tmp_path)
    monkeypatch.setattr(system_checks, "_read_available_memory", lambda: 8 << 30)
    assert system_checks.check_memory(256 << 20).level == OK
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("0\n")
    (tmp_path / "memory.stat").write_text("anon 0\n")
    assert system_checks.check_memory(256 << 20).level == OK
    (tmp_path / "memory.max").write_text(f"{512 << 20}\n")
    (tmp_path / "memory.current").write_text(f"{300 << 20}\n")
    (tmp_path / "memory.stat").write_text(f"anon {100 << 20}\nfile {200 << 20}\n")
    found = system_checks.check_memory(256 << 20)
    assert (found.level, found.text) == (WARNING, "412 MiB available below the limit of this container or unit")


def test_file_systems_are_recognized() -> None:
    assert disk_checks.file_system_of(Path("/proc")) == "proc"
    assert disk_checks.file_system_of(Path("/proc/self")) == "proc"


def test_addresses_in_brackets_and_unknown_names_are_shown() -> None:
    if socket.has_ipv6:
        (found,) = network_checks.check_addresses([network_checks.WantedAddress("rpc", "::1", 0)], is_running=False)
        assert found.text.startswith("[::1]:0")
    (found,) = network_checks.check_addresses(
        [network_checks.WantedAddress("rpc", "no-such-host.invalid", 1)], is_running=False
    )
    assert found.level == PROBLEM
    assert "cannot be resolved" in found.text
