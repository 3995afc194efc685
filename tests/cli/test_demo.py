"""The demo: its verified result, its clean-up, and its duration."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from raftlog.cli.dev.survival import _compare_with_stored, _WriteOutcomes


def test_the_demo_succeeds_and_leaves_no_files(run: Any, tmp_path: Path) -> None:
    done = run("demo", "--records", "300", "--kills", "1", env={"TMPDIR": str(tmp_path)})
    text = done.stdout.decode()
    assert text.startswith("starting 3 brokers\n")
    for line in (
        'send("orders", "hello") -> offset 0',
        'send("orders", "world") -> offset 1',
        'poll("orders", offset=0) -> [[0,"hello"],[1,"world"],[2,"again"]]',
        'commit_offsets("billing", {"orders/0": 3}) -> ok',
        'list_committed_offsets("billing") -> {"orders/0":3}',
        "PASSED",
    ):
        assert line in text
    assert list(tmp_path.iterdir()) == []
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
    assert not [command for command in commands if str(tmp_path).encode() in command]


@pytest.mark.slow
def test_the_demo_can_print_json(run: Any) -> None:
    result = json.loads(run("demo", "--records", "300", "--kills", "1", "--json").stdout)
    assert result["passed"] is True
    assert result["missing"] == 0
    assert result["found"] == result["acknowledged"] >= 300
    assert result["sent"] == result["acknowledged"] + result["unknown"] + result["refused"]
    assert result["seconds"] < 30


@pytest.mark.parametrize(
    ("stored", "missing", "first"),
    [
        ({0: b"a", 1: b"b", 2: b"u"}, 0, None),
        ({0: b"a"}, 1, 1),
        ({0: b"a", 1: b"another"}, 1, 1),
        ({0: b"b", 1: b"a"}, 2, 0),
        ({}, 2, 0),
    ],
)
def test_a_lost_record_is_detected(stored: dict[int, bytes], missing: int, first: int | None) -> None:
    ledger = _WriteOutcomes(sent=3, acknowledged={0: b"a", 1: b"b"}, unknown={b"u"})
    report = _compare_with_stored(ledger, stored, kills=1)
    assert (report.missing, report.first_missing) == (missing, first)
    assert report.unknown_found == (1 if b"u" in stored.values() else 0)
