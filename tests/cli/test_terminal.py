"""What only a terminal sees, and what the broker's log looks like."""

import json
import logging
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from raftlog.cli import log_lines, logs, progress
from raftlog.testing import BrokerProcess


def test_the_bar_waits_a_second(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    bar = progress.Bar("produce t", 100)
    bar.at(10)
    assert bar._progress is None
    now[0] = progress.SHOWN_AFTER_SECONDS
    bar.at(50)
    assert bar._progress is not None
    assert bar._progress.tasks[0].percentage == 50
    bar.close()
    assert capfd.readouterr().out == ""


def test_produce_on_a_terminal(run: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    run("topic", "create", "tty", "--bootstrap", broker.address)
    (tmp_path / "lines").write_bytes(b"a\nb\n")
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "raftlog.cli",
        "produce",
        "tty",
        str(tmp_path / "lines"),
        "--bootstrap",
        broker.address,
    ]
    done = subprocess.run(
        command, stderr=theirs, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False, timeout=30
    )
    os.close(theirs)
    with os.fdopen(ours, "rb") as terminal:
        words = terminal.read1()
    assert done.returncode == 0
    assert words.startswith(b"2 records, 2 bytes to tty")
    assert done.stdout == b""


def record(message: str = "recovered %d bytes", *args: object) -> logging.LogRecord:
    return logging.LogRecord("raftlog.storage", logging.WARNING, "file", 1, message, args or (5,), None)


def test_a_line_for_people() -> None:
    line = log_lines.formatter("text").format(record())
    assert "recovered 5 bytes" in line
    assert "warning" in line
    assert "raftlog.storage" in line


def test_a_line_for_machines() -> None:
    fields = json.loads(log_lines.formatter("json").format(record()))
    assert fields["event"] == "recovered 5 bytes"
    assert (fields["level"], fields["logger"]) == ("warning", "raftlog.storage")
    assert fields["timestamp"].endswith("Z")


def test_the_formatter_comes_with_the_first_line() -> None:
    late = logs._LateFormatter("json")
    assert late._formatter is None
    assert json.loads(late.format(record()))["event"] == "recovered 5 bytes"
    assert late._formatter is not None
