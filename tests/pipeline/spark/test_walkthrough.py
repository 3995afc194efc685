"""The tutorial docs/tutorials/spark.md, run from first to last line, with its output compared.

Commands run in a shell, those of `raftlog pipeline` in this process (a JVM for each would take half a minute), Python
in one namespace. Only the directory and the addresses are others than in the document.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from raftlog.cli import main
from tests.base_ports import reserve_base_port
from tests.layouts import DOCS

DOCUMENT = DOCS / "tutorials" / "spark.md"
FIRST_NODE = "127.0.0.1:8082"
DIRECTORY = "/tmp/walk"
STOPS_BROKERS = "Stop the brokers (Ctrl-C)"
BLOCK = re.compile(rf"^```(\w*)\n(.*?)^```$|({re.escape(STOPS_BROKERS)})", re.DOTALL | re.MULTILINE)
RATE = re.compile(r"in [\d.]+ s, [\d,]+ records/s")
SECONDS_MAX = 60


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with reserve_base_port() as base:
        flags = ("--data-dir", str(tmp_path / "brokers"), "--base-port", str(base), "--json")
        with subprocess.Popen([sys.executable, "-m", "raftlog.cli", "dev", *flags], stdout=subprocess.PIPE) as process:
            yield process
            process.kill()


def read_blocks() -> Iterator[tuple[str, str]]:
    """Yield kind and content of each block, and `stop` at the marks that stop the brokers."""
    for match in BLOCK.finditer(DOCUMENT.read_text(encoding="utf-8")):
        yield ("stop", "") if match[3] else (match[1], match[2])


def split_console_block(block: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block, and its output."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield command, expected


class BlockRunner:
    """Runner of blocks; `output` is the output of the last Python block."""

    def __init__(self, directory: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._directory, self._address, self._capsys = str(directory), address, capsys
        self._names: dict[str, object] = {}
        self.output = ""

    def python(self, code: str) -> None:
        exec(compile(self._localize(code), str(DOCUMENT), "exec"), self._names)
        self.output = self._capsys.readouterr().out

    def console(self, block: str) -> None:
        for command, expected in split_console_block(self._localize(block)):
            is_job = command.startswith("raftlog pipeline ")
            said = self._job(command) if is_job else self._shell(command)
            assert RATE.sub("", said) == RATE.sub("", expected), command

    def _job(self, command: str) -> str:
        line, _, field = command.partition(" --json | jq .")
        sys.argv = [*shlex.split(line), "--json"]
        with pytest.raises(SystemExit) as ended:
            main()
        said = self._capsys.readouterr()
        assert not ended.value.code, (command, said)
        return json.dumps(json.loads(said.out)[field]) + "\n"

    def _shell(self, command: str) -> str:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8", "RAFTLOG_BOOTSTRAP": self._address}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            env=environment,
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr.decode())
        return (done.stdout + done.stderr).decode()

    def _localize(self, text: str) -> str:
        return text.replace(DIRECTORY, self._directory).replace(FIRST_NODE, self._address)


def test_the_walk_through_works_as_written(
    spark: SparkSession,
    brokers: "subprocess.Popen[bytes]",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert brokers.stdout is not None
    address = json.loads(brokers.stdout.readline())["nodes"][0]["http"]
    monkeypatch.setenv("RAFTLOG_BOOTSTRAP", address)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)  # all tests share it
    walker = BlockRunner(tmp_path, address, capsys)
    kinds = []
    for kind, block in read_blocks():
        kinds.append(kind)
        if kind == "python":
            walker.python(block)
        elif kind == "console":
            walker.console(block)
        elif kind == "text":
            assert walker.output.strip() == block.strip()
        elif kind == "stop":
            brokers.send_signal(signal.SIGINT)
            assert brokers.wait(SECONDS_MAX) == 0
        else:
            assert "raftlog dev" in block
    assert kinds.count("python") >= 5
    assert kinds.count("stop") == 1
