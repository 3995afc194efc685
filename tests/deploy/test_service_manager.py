"""Readiness and watchdog of a real broker by systemd's protocol, and the systemd unit."""

import configparser
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.cli.serve.service_manager import ServiceManager
from raftlog.testing import BrokerProcess, process_start
from tests.base_ports import reserve_base_port

UNIT = Path(__file__).parents[2] / "deploy" / "raftlog.service"
SECONDS_MAX = 120.0


class Manager:
    """Socket of a service manager."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(SECONDS_MAX)

    def receive(self) -> str:
        return self.socket.recv(4096).decode()

    def receive_or_none(self) -> str | None:
        try:
            return self.receive()
        except TimeoutError:
            return None

    def wait_for(self, text: str) -> None:
        until = time.monotonic() + SECONDS_MAX
        while text not in self.receive():
            assert time.monotonic() < until, f"no {text}"


@pytest.fixture
def base_port() -> Iterator[int]:
    with reserve_base_port() as port:
        yield port


@pytest.fixture
def manager(tmp_path: Path) -> Any:
    found = Manager(str(tmp_path / "notify"))
    yield found
    found.socket.close()


def test_a_broker_is_ready_alive_and_stopping(manager: Manager, tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"}
    with BrokerProcess(tmp_path / "data", environment=environment) as broker:
        broker.start()
        first = manager.receive()
        assert first.startswith("READY=1\nSTATUS=node 1 serves at ")
        for _ in range(3):
            assert manager.receive() == "WATCHDOG=1"
        os.kill(broker.pid, signal.SIGSTOP)  # as a blocked loop
        manager.socket.settimeout(1.5)
        assert len(list(iter(manager.receive_or_none, None))) <= 3
        os.kill(broker.pid, signal.SIGCONT)
        manager.socket.settimeout(SECONDS_MAX)
        manager.wait_for("WATCHDOG=1")
        assert broker.stop() == 0
        manager.wait_for("STOPPING=1")


def test_workers_are_ready_together_and_have_no_service_manager_of_their_own(
    manager: Manager, tmp_path: Path, base_port: int
) -> None:
    flags = [
        "--workers",
        "2",
        "--http",
        f"127.0.0.1:{base_port}",
        "--kafka",
        "none",
        "--data-dir",
        str(tmp_path / "data"),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAFTLOG_")}
    environment["NOTIFY_SOCKET"] = str(tmp_path / "notify")
    process = process_start.start(
        [sys.executable, "-m", "raftlog.cli", "serve", *flags],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert manager.receive() == "READY=1\nSTATUS=2 workers serve"
        process.send_signal(signal.SIGTERM)
        assert manager.receive() == "STOPPING=1"
        assert process.wait(SECONDS_MAX) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("variables", "watchdog_s"),
    [
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_that_of_this_process(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], watchdog_s: float | None
) -> None:
    for name, value in {"NOTIFY_SOCKET": "@x", **variables}.items():
        monkeypatch.setenv(name, value)
    found = ServiceManager.take()
    assert (found._address, found._watchdog_s) == ("@x", watchdog_s)
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & os.environ.keys()


async def test_abstract_sockets_are_notified_and_missing_ones_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    name = f"raftlog-test-{os.getpid()}"
    manager = Manager(f"\0{name}")
    ServiceManager(f"@{name}", None).notify_ready("here")
    assert manager.receive() == "READY=1\nSTATUS=here"
    manager.socket.close()
    ServiceManager(f"@{name}", None).notify_stopping()
    assert "was not notified" in caplog.text
    ServiceManager(None, 1.0).notify_ready("nowhere")


def read_unit() -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT.read_text())
    return {section: dict(parser[section]) for section in parser.sections()}


def test_the_unit_has_readiness_watchdog_and_limits() -> None:
    service = read_unit()["Service"]
    assert (service["Type"], service["Restart"]) == ("notify", "on-failure")
    assert float(service["WatchdogSec"]) >= 10
    assert int(service["LimitNOFILE"]) >= 4_096
    assert service["TimeoutStartSec"] == "infinity"
    assert service["User"] not in ("root", "")


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """`systemd-analyze verify`, with paths and a user that exist here."""
    program = Path(sys.executable).with_name("raftlog")
    assert program.exists(), "the command is installed beside the interpreter"
    text = UNIT.read_text().replace("/opt/raftlog/bin/raftlog", str(program))
    text = re.sub(r"^(User|Group)=.*$", r"\1=root", text, flags=re.MULTILINE)
    path = tmp_path / "raftlog.service"
    path.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], check=False, capture_output=True, text=True
    )
    complaints = [line for line in done.stderr.splitlines() if "raftlog" in line]
    assert (done.returncode, complaints) == (0, []), done.stderr
