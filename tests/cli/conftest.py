"""Fixtures: the command in processes of its own, and a real broker for it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from raftlog.cli.entry import main
from raftlog.testing import BrokerProcess
from tests.base_ports import reserve_base_port
from tests.cli.scripted_broker import ScriptedBroker
from tests.forked.client import ForkServer

COMMAND = [sys.executable, "-m", "raftlog.cli"]
SECONDS_MAX = 60


class Run(Protocol):
    """Function that runs the command to its end."""

    def __call__(
        self, *args: str, stdin: bytes = b"", env: dict[str, str] | None = None, expect: int | None = 0
    ) -> "subprocess.CompletedProcess[bytes]": ...


def build_environment(more: dict[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAFTLOG_")}
    return {**kept, "RAFTLOG_KAFKA": "none", **(more or {})}


@pytest.fixture(scope="session")
def run(fork_server: ForkServer) -> Run:
    """Return a function like `run("topic", "list")` that fails the test on an unexpected exit code."""

    def run_command(
        *args: str, stdin: bytes = b"", env: dict[str, str] | None = None, expect: int | None = 0
    ) -> "subprocess.CompletedProcess[bytes]":
        done = fork_server.run("raftlog.cli", args, stdin, build_environment(env), SECONDS_MAX)
        if expect is not None:
            assert done.returncode == expect, f"{args} exited {done.returncode}: {done.stderr.decode()}"
        if done.returncode in (1, 2, 3):
            assert_one_line(done.stderr)
        return done

    return run_command


def assert_one_line(stderr: bytes) -> None:
    lines = stderr.decode().splitlines()
    assert lines, "a failure says nothing"
    assert lines[-1].startswith("error: "), lines
    assert not any(line.startswith("Traceback") for line in lines), stderr.decode()


@pytest.fixture
def spawn(fork_server: ForkServer) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Return a function that starts the command without waiting; commands still running at the end are killed."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(*args: str, env: dict[str, str] | None = None, **pipes: Any) -> "subprocess.Popen[bytes]":
        pipes.setdefault("stdout", subprocess.PIPE)
        pipes.setdefault("stderr", subprocess.PIPE)
        pipes.setdefault("stdin", subprocess.DEVNULL)
        process = fork_server.popen([*COMMAND, *args], env=build_environment(env), **pipes)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        with process:
            pass


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Start a broker that the tests of a module share; each uses topics of its own."""
    with BrokerProcess(str(tmp_path_factory.mktemp("broker"))) as process:
        process.start()
        yield process
        assert process.stop() == 0


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Start a broker that a test may kill and restart."""
    with BrokerProcess(str(tmp_path / "data")) as process:
        process.start()
        yield process


@pytest.fixture
def topic(request: pytest.FixtureRequest, broker: BrokerProcess, run: Run) -> str:
    """Create a topic with one partition, named after the test."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    run("topic", "create", name, "--bootstrap", broker.address)
    return name


@pytest.fixture
def scripted() -> Iterator[ScriptedBroker]:
    broker = ScriptedBroker()
    yield broker
    broker.close()


class CommandResult(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


Command = Callable[..., CommandResult]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function like `command("broker", "list", bootstrap=…)` that runs the command in this process."""

    def run_here(*args: str, bootstrap: str, expect: int = 0) -> CommandResult:
        monkeypatch.setenv("RAFTLOG_BOOTSTRAP", bootstrap)
        monkeypatch.setattr(sys, "argv", ["raftlog", *args])
        with pytest.raises(SystemExit) as ended:
            main()
        done = CommandResult(int(ended.value.code or 0), *capsys.readouterr())
        assert done.code == expect, done
        return done

    return run_here


@pytest.fixture
def ask(scripted: ScriptedBroker, command: Command) -> Command:
    """Return the command bound to the scripted broker."""
    return partial(command, bootstrap=scripted.address)


@pytest.fixture
def base_port() -> Iterator[int]:
    """Reserve the ports of a `raftlog dev` with three nodes."""
    with reserve_base_port() as base:
        yield base
