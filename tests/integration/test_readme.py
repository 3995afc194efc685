"""Commands of the README, typed as they are printed there, but at other ports."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from raftlog.testing.cluster import POLL_SECONDS
from raftlog.testing.http import ask
from raftlog.testing.ports import hold_port
from raftlog.testing.process import READY_SECONDS_MAX, BrokerProcess

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def block(heading: str, number: int = 0) -> str:
    """Return a block of code below a heading of the README."""
    section = README.split(f"### {heading}\n")[1].split("\n### ")[0] if f"### {heading}\n" in README else ""
    section = section or README.split(f"## {heading}\n")[1].split("\n## ")[0]
    return str(re.findall(r"```(?:console|python)?\n(.*?)```", section, re.DOTALL)[number])


def typed(console: str) -> list[str]:
    return [line.removeprefix("$ ") for line in console.splitlines() if line.startswith("$ ")]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a directory with a `.venv` in which raftlog is installed."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    return tmp_path


def run(script: str, directory: Path, **environment: str) -> str:
    """Run it in a new terminal, which knows no command of raftlog."""
    whole = "set -e -o pipefail\n" + script
    fresh = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(directory), **environment}
    done = subprocess.run(
        ["/bin/bash", "-c", whole], cwd=directory, env=fresh, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_second_terminal_of_one_broker(clone: Path, tmp_path: Path) -> None:
    with BrokerProcess(str(tmp_path / "data")) as broker:
        broker.start()
        lines = [*typed(block("One broker", 1)), *typed(block("One broker", 2))]
        script = "\n".join(lines).replace("127.0.0.1:8082", broker.address)
        told = run(script, clone, RAFTLOG_BOOTSTRAP=broker.address)
        assert told.startswith("created orders, 2 partitions\n")
        assert "0: bob=3\n1: carol=7\n" in told
        assert '"key":"dave","value":{"total":5}' in told
        assert '"beginning_offset":0,"end_offset":3' in told
        keys = [row["key"] for row in ask(broker.address, "/topics/orders/partitions/0/records?offset=0")[1]]
        assert keys == ["bob", "carol", "dave"], "each is the text alone, whichever client sent it"


def test_other_second_terminals_find_the_command() -> None:
    for heading in ("One broker", "A cluster on this machine"):
        assert typed(block(heading, 1))[0] == 'export PATH="$PWD/.venv/bin:$PATH"'


@pytest.fixture
def terminals(clone: Path) -> Iterator[list["subprocess.Popen[str]"]]:
    """Run the commands of 'A cluster of your own', each in a terminal of its own, at free ports."""
    printed, *commands = block("A cluster of your own").strip().splitlines()
    run(f'export PATH="$PWD/.venv/bin:$PATH"\n{printed}', clone)
    text = "\n".join(commands)
    with ExitStack() as stack:
        for port in sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", text))):
            held = stack.enter_context(hold_port())
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{held.getsockname()[1]}")
        path = f"{clone}/.venv/bin:{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": str(clone), "RAFTLOG_GOSSIP": "off"}
        started = [
            subprocess.Popen(
                ["/bin/bash", "-c", f"exec {line}"], cwd=clone, env=environment, stdout=subprocess.PIPE, text=True
            )
            for line in text.splitlines()
        ]
        yield started
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.communicate(timeout=30)


def test_a_cluster_of_your_own_is_one_cluster(terminals: list["subprocess.Popen[str]"]) -> None:
    ready = [process.stdout.readline() for process in terminals if process.stdout is not None]
    assert [line.split(" serves ")[0] for line in ready] == [f"raftlog is ready: node {n}" for n in (1, 2, 3)]
    assert len({line.rsplit(", cluster ", 1)[1] for line in ready}) == 1
    address = ready[2].split("http://")[1].split(",")[0]
    until = time.monotonic() + READY_SECONDS_MAX
    while len(ask(address, "/v1/brokers")[1]) < 3:  # it may hear of the last registration a moment later
        assert time.monotonic() < until
        time.sleep(POLL_SECONDS)


def test_the_script_of_the_library_works_beside_a_clone(tmp_path: Path) -> None:
    """The directory `raftlog` of a clone beside the script is not the package."""
    (tmp_path / "raftlog").mkdir()
    (tmp_path / "script.py").write_text(block("The library"))
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == block("The library", 1), done.stderr
