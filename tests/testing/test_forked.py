"""Forked processes behave as those with their own interpreter; `tests/forked` is no part of raftlog."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.forked.client import ForkedProcess, ForkServer

COMMAND = [sys.executable, "-m", "raftlog.cli"]
SERVE = [*COMMAND, "serve", "--http", "127.0.0.1:0", "--kafka", "none", "--log-format", "json", "--data-dir"]
Start = Callable[..., Any]


@pytest.fixture(params=["forked", "its own interpreter"])
def start(request: pytest.FixtureRequest, fork_server: ForkServer) -> Start:
    return fork_server.popen if request.param == "forked" else subprocess.Popen


def streams() -> dict[str, Any]:
    return {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def test_output_and_exit_code_are_reported(start: Start) -> None:
    with start([*COMMAND, "--version"], stdin=subprocess.DEVNULL, **streams()) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"raftlog, version ")
    with start([*COMMAND, "no-such-verb"], stdin=subprocess.DEVNULL, **streams()) as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert b"no-such-verb" in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -9)])
def test_signals_reach_the_session_of_a_process(
    start: Start, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with start([*SERVE, str(tmp_path)], start_new_session=True, **streams()) as process:
        assert process.stdout.readline().startswith(b"{")
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.001)
        assert os.getsid(process.pid) == process.pid
        os.killpg(process.pid, number)
        assert process.wait(10) == code


def test_environment_and_working_directory_are_passed_on(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    environment = os.environ | {"RAFTLOG_HTTP": "127.0.0.1:0", "RAFTLOG_KAFKA": "none", "RAFTLOG_DATA_DIR": "here"}
    with start([*COMMAND, "serve"], env=environment, **streams()) as process:
        assert str(tmp_path / "here").encode() in process.stdout.readline()
        process.terminate()


def test_environment_for_the_interpreter_start_prevents_a_fork(fork_server: ForkServer) -> None:
    changed = os.environ | {"PYTHONHASHSEED": "7"}
    with fork_server.popen([*COMMAND, "--version"], env=changed, **streams()) as process:
        assert isinstance(process, subprocess.Popen)
        assert process.communicate()[0].startswith(b"raftlog, version ")


@pytest.fixture
def dropped_broker(tmp_path: Path) -> Iterator[int]:
    """Return a pidfd of a forked broker whose `BrokerProcess` was dropped."""
    server = ForkServer([])
    process = server.popen([*SERVE, str(tmp_path)], start_new_session=True, **streams())
    assert isinstance(process, ForkedProcess)
    descriptor = os.pidfd_open(process.pid)
    for pipe in (process.stdout, process.stderr, process._told):
        pipe.close()
    yield descriptor
    os.close(descriptor)
    server.close()


def test_no_process_is_left_behind(dropped_broker: int) -> None:
    ended = select.poll()
    ended.register(dropped_broker, select.POLLIN)
    assert ended.poll(10_000), "it lives on"
