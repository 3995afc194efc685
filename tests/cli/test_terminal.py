"""Output that is printed only on a terminal, and the format of the broker's log."""

import json
import logging
import os
import pty
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from raftlog.cli import progress, tables
from raftlog.cli.serve import log_lines, logs
from raftlog.testing import BrokerProcess


def test_the_progress_bar_appears_after_a_second(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    bar = progress.ByteProgressBar("produce t", 100)
    bar.update(10)
    assert bar._progress is None
    now[0] = progress.SHOWN_AFTER_SECONDS
    bar.update(50)
    assert bar._progress is not None
    assert bar._progress.tasks[0].percentage == 50
    bar.close()
    assert capfd.readouterr().out == ""


def test_produce_shows_progress_on_a_terminal(run: Any, broker: BrokerProcess, tmp_path: Path) -> None:
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


def make_log_record(message: str = "recovered %d bytes", *args: object) -> logging.LogRecord:
    return logging.LogRecord("raftlog.storage", logging.WARNING, "file", 1, message, args or (5,), None)


def test_text_log_lines_are_readable() -> None:
    line = log_lines.make_formatter("text").format(make_log_record())
    assert "recovered 5 bytes" in line
    assert "warning" in line
    assert "raftlog.storage" in line


def test_json_log_lines_can_be_parsed() -> None:
    fields = json.loads(log_lines.make_formatter("json").format(make_log_record()))
    assert fields["event"] == "recovered 5 bytes"
    assert (fields["level"], fields["logger"]) == ("warning", "raftlog.storage")
    assert fields["timestamp"].endswith("Z")


def test_the_log_formatter_is_created_with_the_first_line() -> None:
    late = logs._LateFormatter("json")
    assert late._formatter is None
    assert json.loads(late.format(make_log_record()))["event"] == "recovered 5 bytes"
    assert late._formatter is not None


@pytest.mark.parametrize(("more", "is_red"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_an_error_is_red_on_a_terminal(more: dict[str, str], is_red: bool) -> None:
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    command = [sys.executable, "-m", "raftlog.cli", "tpoic"]
    subprocess.run(command, stderr=theirs, stdin=subprocess.DEVNULL, env=environment | more, check=False, timeout=30)
    os.close(theirs)
    with os.fdopen(ours, "rb") as terminal:
        words = terminal.read1()
    assert words.startswith(b"\x1b[31m\x1b[1merror:\x1b[0m No such" if is_red else b"error: No such")


def test_problems_in_a_table_are_red_only_on_a_terminal() -> None:
    table = Table("alive", "problem")
    table.add_row(tables.yes_no(False), tables.red("[red] is no mark here"))
    for is_terminal in (True, False):
        written = StringIO()
        Console(
            file=written, force_terminal=is_terminal, color_system="standard" if is_terminal else "auto", width=80
        ).print(table)
        assert ("\x1b[31m" in written.getvalue()) is is_terminal
        assert "[red] is no mark here" in written.getvalue()
