"""Start and stop of a broker: output, refusals, and duration."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raftlog.cli.serve import verb
from raftlog.errors import SyncFailed
from raftlog.storage.json_file import encode_json
from raftlog.testing.http import ask
from tests.cli.conftest import Command

Spawn = Callable[..., "subprocess.Popen[bytes]"]
STOP_SECONDS_MAX = 5.0
FREE = "127.0.0.1:0"


def read_first_line(process: "subprocess.Popen[bytes]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode()


def start_until_ready(
    spawn: Spawn, data_dir: Path, *flags: str, **more: Any
) -> tuple["subprocess.Popen[bytes]", dict[str, Any]]:
    process = spawn("serve", "--data-dir", str(data_dir), "--http", FREE, "--log-format", "json", *flags, **more)
    line = read_first_line(process)
    assert line, process.communicate()[1].decode()
    return process, json.loads(line)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_broker_cleanly(spawn: Spawn, tmp_path: Path, number: signal.Signals) -> None:
    process, line = start_until_ready(spawn, tmp_path / "data")
    assert line["event"] == "ready"
    assert line["pid"] == process.pid
    began = time.monotonic()
    process.send_signal(number)
    assert process.wait(STOP_SECONDS_MAX) == 0
    assert time.monotonic() - began < STOP_SECONDS_MAX


def test_a_waiting_fetch_does_not_delay_the_stop(spawn: Spawn, tmp_path: Path, run: Any) -> None:
    process, line = start_until_ready(spawn, tmp_path / "data")
    run("topic", "create", "t", "--bootstrap", line["http"])
    run("produce", "t", "--bootstrap", line["http"], stdin=b"here\n")
    reader = spawn("consume", "t", "--bootstrap", line["http"], "--give-up-after", "0")
    assert read_first_line(reader) == "here\n"
    began = time.monotonic()
    process.terminate()
    assert process.wait(STOP_SECONDS_MAX) == 0
    assert time.monotonic() - began < STOP_SECONDS_MAX
    assert reader.wait(STOP_SECONDS_MAX) == 1


def test_a_stop_under_load_is_clean_and_loses_nothing(spawn: Spawn, run: Any, tmp_path: Path) -> None:
    process, line = start_until_ready(spawn, tmp_path / "data")
    at = ("--bootstrap", line["http"])
    run("topic", "create", "t", *at)
    (tmp_path / "lines").write_bytes(b"".join(b"%d\n" % number for number in range(200_000)))
    reader = spawn("consume", "t", "--count", "1000", *at, stdout=subprocess.DEVNULL)
    options = ("--give-up-after", "0", "--timeout-ms", "3000")
    writer = spawn("produce", "t", str(tmp_path / "lines"), "--batch-bytes", "100", *options, "--json", *at)
    assert reader.wait(30) == 0
    began = time.monotonic()
    process.terminate()
    assert process.wait(STOP_SECONDS_MAX) == 0
    assert time.monotonic() - began < STOP_SECONDS_MAX
    assert writer.wait(30) in (1, 3)
    assert writer.stdout is not None
    confirmed = json.loads(writer.stdout.read())["records"]
    _, line = start_until_ready(spawn, tmp_path / "data")
    stored = run("consume", "t", "--no-follow", "--bootstrap", line["http"]).stdout.split()
    assert len(stored) >= confirmed >= 1000
    assert stored == [b"%d" % number for number in range(len(stored))]


def test_the_ready_line_is_readable_text_by_default(spawn: Spawn, tmp_path: Path) -> None:
    process = spawn("serve", "--data-dir", str(tmp_path / "data"), "--http", FREE)
    assert read_first_line(process).startswith("raftlog is ready: node 1 serves http://127.0.0.1:")


def test_settings_are_read_from_the_environment(spawn: Spawn, tmp_path: Path) -> None:
    data_dir = tmp_path / "from-environment"
    env = {
        "RAFTLOG_DATA_DIR": str(data_dir),
        "RAFTLOG_HTTP": FREE,
        "RAFTLOG_NODE_ID": "7",
        "RAFTLOG_LOG_FORMAT": "json",
    }
    line = json.loads(read_first_line(spawn("serve", env=env)))
    assert (line["node_id"], line["data_dir"]) == (7, str(data_dir))
    assert data_dir.is_dir()


@pytest.mark.parametrize("method", ["aio", "threads"])
def test_the_ready_line_names_the_sync_method(spawn: Spawn, tmp_path: Path, method: str) -> None:
    process, line = start_until_ready(spawn, tmp_path / "data", "--sync-method", method)
    assert line["sync_method"] == method
    process.send_signal(signal.SIGTERM)
    assert process.wait(STOP_SECONDS_MAX) == 0
    for_people = read_first_line(
        spawn("serve", "--data-dir", str(tmp_path / "data"), "--http", FREE, "--sync-method", method)
    )
    assert f", syncs by {method}" in for_people


def test_a_flag_takes_precedence_over_the_environment(spawn: Spawn, tmp_path: Path) -> None:
    _, line = start_until_ready(spawn, tmp_path / "data", "--node-id", "3", env={"RAFTLOG_NODE_ID": "7"})
    assert line["node_id"] == 3


def test_a_port_in_use_is_reported(run: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        done = run("serve", "--data-dir", str(tmp_path / "data"), "--http", address, expect=1)
    assert address.rpartition(":")[2] in done.stderr.decode()
    assert "another program listens there" in done.stderr.decode()


def test_the_ready_line_and_event_have_the_first_kafka_listener(spawn: Spawn, run: Any, tmp_path: Path) -> None:
    flags = ("--kafka", "in=127.0.0.1:0", "--kafka", "out=[::1]:0", "--advertise-kafka", "out=example.org:9")
    process, line = start_until_ready(spawn, tmp_path / "data", *flags)
    [broker] = json.loads(run("broker", "list", "--json", "--bootstrap", line["http"]).stdout)
    assert broker["kafka_addresses"] == {"in": line["kafka"], "out": "example.org:9"}
    shown = run("broker", "list", "--bootstrap", line["http"]).stdout.decode()
    assert f"in={line['kafka']}, out=example.org:9" in shown
    host, _, port = line["kafka"].rpartition(":")
    socket.create_connection((host, int(port)), 10).close()
    process.terminate()
    events = [json.loads(each) for each in process.communicate()[1].splitlines()]
    [event] = [each for each in events if each["event"] == "process_ready"]
    assert event["kafka"] == line["kafka"]
    for_people = read_first_line(
        spawn("serve", "--data-dir", str(tmp_path / "data"), "--http", FREE, "--kafka", "[::1]:0")
    )
    assert " and Kafka at [::1]:" in for_people


def test_the_ready_line_reports_that_kafka_is_off(spawn: Spawn, tmp_path: Path) -> None:
    _, line = start_until_ready(spawn, tmp_path / "data", "--kafka", "none")
    assert line["kafka"] is None


def test_a_kafka_port_in_use_is_an_error_only_if_named(spawn: Spawn, run: Any, tmp_path: Path) -> None:
    """A port named by a flag is required; the default port is left to the other program."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        flags = ("serve", "--data-dir", str(tmp_path / "data"), "--http", FREE)
        done = run(*flags, "--kafka", address, expect=1)
        assert f"cannot listen on {address}: another program listens there" in done.stderr.decode()
        process, line = start_until_ready(
            spawn, tmp_path / "data", "--kafka-default", address, env={"RAFTLOG_KAFKA": ""}
        )
        assert line["kafka"] is None
        process.terminate()
        assert f"Kafka is off: cannot listen on {address}" in process.communicate()[1].decode()


def test_kafka_listeners_are_read_from_the_environment(spawn: Spawn, run: Any, tmp_path: Path) -> None:
    env = {"RAFTLOG_KAFKA": "in=127.0.0.1:0 out=127.0.0.1:0", "RAFTLOG_KAFKA_IDLE_MS_MAX": "1000"}
    _, line = start_until_ready(spawn, tmp_path / "data", env=env)
    [broker] = json.loads(run("broker", "list", "--json", "--bootstrap", line["http"]).stdout)
    assert list(broker["kafka_addresses"]) == ["in", "out"]


def test_a_second_broker_on_one_directory_is_refused(spawn: Spawn, run: Any, tmp_path: Path) -> None:
    start_until_ready(spawn, tmp_path / "data")
    done = run("serve", "--data-dir", str(tmp_path / "data"), "--http", FREE, expect=1)
    assert str(tmp_path / "data") in done.stderr.decode()
    assert "another process" in done.stderr.decode()


def test_a_data_directory_below_a_file_is_refused(run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    done = run("serve", "--data-dir", str(tmp_path / "file" / "data"), "--http", FREE, expect=1)
    assert str(tmp_path / "file") in done.stderr.decode()


def test_a_data_directory_without_write_permission_is_refused(run: Any, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    path = str(tmp_path / "closed" / "data") if os.geteuid() else "/proc/raftlog-cannot-be-here"
    done = run("serve", "--data-dir", path, "--http", FREE, expect=1)
    assert path in done.stderr.decode()


def test_a_directory_of_another_version_is_refused(spawn: Spawn, run: Any, tmp_path: Path) -> None:
    process, _ = start_until_ready(spawn, tmp_path / "data")
    process.terminate()
    assert process.wait(STOP_SECONDS_MAX) == 0
    meta = tmp_path / "data" / ".raftlog" / "meta"
    fields = json.loads(meta.read_text())
    del fields["crc32c"]
    meta.write_bytes(encode_json({**fields, "format": fields["format"] + 1}))
    done = run("serve", "--data-dir", str(tmp_path / "data"), "--http", FREE, expect=1)
    assert "version" in done.stderr.decode()


def test_the_directory_of_another_node_is_refused(spawn: Spawn, run: Any, tmp_path: Path) -> None:
    process, _ = start_until_ready(spawn, tmp_path / "data")
    process.terminate()
    assert process.wait(STOP_SECONDS_MAX) == 0
    done = run("serve", "--data-dir", str(tmp_path / "data"), "--http", FREE, "--node-id", "2", expect=1)
    assert "2" in done.stderr.decode()


@pytest.mark.parametrize(
    "flags",
    [
        ("--http", "0.0.0.0:0"),
        ("--http", "[::]:0"),
        ("--http", "somewhere.example:0"),
        ("--http", FREE, "--kafka", "0.0.0.0:0", "--advertise-kafka", "h:1"),
    ],
)
def test_an_address_beyond_loopback_needs_tls_or_insecure(run: Any, tmp_path: Path, flags: tuple[str, ...]) -> None:
    done = run("serve", "--data-dir", str(tmp_path / "data"), *flags, expect=2)
    assert f"other machines can reach {flags[-4] if len(flags) > 2 else flags[0]} " in done.stderr.decode()
    assert "--tls-certificate" in done.stderr.decode()
    assert "--insecure" in done.stderr.decode()


def test_insecure_allows_an_address_beyond_loopback(spawn: Spawn, tmp_path: Path) -> None:
    flags = ("--data-dir", str(tmp_path / "data"), "--http", "0.0.0.0:0", "--insecure", "--log-format", "json")
    process = spawn("serve", *flags)
    ready = json.loads(read_first_line(process))
    assert ready["http"].startswith("0.0.0.0:")
    address = f"127.0.0.1:{ready['http'].rpartition(':')[2]}"
    note = "node 1: other machines can reach the listener http at 0.0.0.0:0 without TLS and logins (--insecure)"
    health = ask(address, "/v1/cluster/health_overview")[1]
    assert (health["is_healthy"], health["notes"]) == (True, [note])
    process.terminate()
    _, stderr = process.communicate()
    [warning] = [line for line in map(json.loads, stderr.splitlines()) if line["event"] == "listener_insecure"]
    shown = {"level": "warning", "listener": "http", "address": "0.0.0.0:0", "lacks": "TLS and logins"}
    assert warning.items() >= shown.items()


def test_serve_refuses_python_optimisation(tmp_path: Path) -> None:
    command = [sys.executable, "-O", "-m", "raftlog.cli", "serve", "--data-dir", str(tmp_path / "data"), "--http", FREE]
    done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: raftlog serve refuses to run under `python -O`")


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (("--http", "8082"), "HOST:PORT"),
        (("--http", "127.0.0.1:70000"), "HOST:PORT"),
        (("--node-id", "-1"), "--node-id"),
        (("--log-level", "loud"), "loud"),
        (("--topic-config", "retention.ms"), "KEY=VALUE"),
        (("--nothing",), "--nothing"),
    ],
)
def test_invalid_flags_are_refused(run: Any, flags: tuple[str, ...], what: str) -> None:
    done = run("serve", *flags, expect=2)
    assert what in done.stderr.decode()
    assert "raftlog serve --help" in done.stderr.decode()


def test_an_invalid_topic_setting_is_refused(run: Any) -> None:
    assert b"unknown setting 'x'" in run("serve", "--topic-config", "x=1", expect=1).stderr


def test_a_broker_that_ends_by_a_failed_sync_returns_exit_code_1(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The outcome of its writes is unknown, but not that of the command; the stop may raise the error again."""

    async def fail(*_: object) -> None:
        raise SyncFailed("a sync failed")

    monkeypatch.setattr(verb, "_serve", fail)
    for name in ("configure", "write_held"):
        monkeypatch.setattr(verb.logs, name, lambda *_: None)
    done = command("serve", "--data-dir", str(tmp_path), bootstrap="", expect=1)
    assert done.err == "error: a sync failed\n"


def test_serving_imports_no_client_and_no_terminal_library() -> None:
    code = (
        "import sys, raftlog.cli.serve.verb; print(*sorted({'rich', 'structlog', 'raftlog.client'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, check=True)
    assert done.stdout == b"\n"


def test_a_stop_that_waits_for_a_disk_ends_at_its_bound() -> None:
    """The loop itself waits, so only another thread can end the process."""
    script = """
import asyncio, time
from types import SimpleNamespace
from raftlog.cli.serve import verb

async def stop(*_):
    pass

async def close():
    time.sleep(600)

async def run():
    ended = asyncio.get_running_loop().create_future()
    await verb._stop(SimpleNamespace(ended=ended, node_id=1, close=close), SimpleNamespace(stop=stop))

verb.STOP_SECONDS_MAX = 0.1
asyncio.run(run())
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: the broker did not stop within 0.1 s")
