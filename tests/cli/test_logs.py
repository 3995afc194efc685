"""The broker's log: events in order, each once, limited per second, and without secrets."""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftlog import events
from raftlog.cli.serve.event_limit import EventLimit
from raftlog.cli.serve.log_lines import make_formatter
from raftlog.events import EVENTS, event

LOGGER = logging.getLogger("raftlog.tests")
_STANDARD = {"event", "level", "logger", "timestamp"}


@pytest.fixture
def limit(caplog: pytest.LogCaptureFixture) -> Iterator[EventLimit]:
    caplog.set_level(logging.INFO, "raftlog")
    gate = EventLimit(per_second=3)
    events.set_gate(gate)
    yield gate
    events.set_gate(None)


def list_messages(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int]]:
    return [(record.getMessage(), record.levelno) for record in caplog.records]


async def test_events_above_the_limit_are_counted_in_one_line(
    limit: EventLimit, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(5_000):
        event(LOGGER, "leadership_lost", group=f"t/{number}", term=2, why="no quorum answered")
    event(LOGGER, "topic_deleted", topic="t")
    assert list_messages(caplog) == [("leadership_lost", logging.INFO)] * 3 + [("topic_deleted", logging.INFO)]
    limit.end_second()
    assert list_messages(caplog)[4:] == [("events_left_out", logging.WARNING)]
    assert caplog.records[-1].count == 4_997  # type: ignore[attr-defined]
    event(LOGGER, "leadership_lost", group="t/0", term=3, why="another replica leads")
    assert list_messages(caplog)[5:] == [("leadership_lost", logging.INFO)], "a new second"


async def test_one_timer_at_a_time_ends_the_seconds_of_the_limit(
    limit: EventLimit, monkeypatch: pytest.MonkeyPatch
) -> None:
    due: list[Any] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda seconds, work: due.append((seconds, work)))
    for _ in range(5):
        event(LOGGER, "topic_deleted", topic="t")
    assert due == [(1.0, limit.end_second)], "one timer for all"


def test_events_before_the_loop_runs_are_logged(limit: EventLimit, caplog: pytest.LogCaptureFixture) -> None:
    """A private key that other users can read is reported while the command line is checked."""
    for _ in range(5):
        event(LOGGER, "private_key_readable", path="key", mode="644")
    assert list_messages(caplog) == [("private_key_readable", logging.WARNING)] * 5
    limit.end_second()
    assert len(list_messages(caplog)) == 5


async def test_level_debug_logs_all_events(limit: EventLimit, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "raftlog")
    for _ in range(5):
        event(LOGGER, "topic_deleted", topic="t")
    assert list_messages(caplog) == [("topic_deleted", logging.INFO)] * 3 + [("topic_deleted", logging.DEBUG)] * 2


async def test_unlogged_events_are_not_counted(limit: EventLimit, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "raftlog")
    for _ in range(5):
        event(LOGGER, "topic_deleted", topic="t")
    limit.end_second()
    assert list_messages(caplog) == []


def test_an_event_has_the_fields_of_its_name() -> None:
    with pytest.raises(AssertionError, match=r"topic_deleted has no .*value"):
        event(LOGGER, "topic_deleted", topic="t", value="secret")
    with pytest.raises(KeyError):
        event(LOGGER, "something_else")
    taken = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"} | _STANDARD
    assert [name for name, kind in EVENTS.items() if kind.fields & taken] == [], "names of the log record itself"


@pytest.mark.parametrize("line_format", ["text", "json"])
def test_a_traceback_shows_no_values_of_variables(line_format: str) -> None:
    record_value = "secret of a customer"
    try:
        raise AssertionError(f"{len(record_value)} characters")
    except AssertionError:
        record = logging.LogRecord("raftlog", logging.ERROR, __file__, 1, "it failed", (), sys.exc_info())
    line = make_formatter(line_format).format(record)
    assert "20 characters" in line
    assert record_value not in line


def read_events(process: Any) -> list[dict[str, Any]]:
    assert process.stderr is not None
    return [json.loads(line) for line in process.stderr.read().splitlines()]


def test_start_and_stop_of_a_broker_are_logged_as_events(spawn: Any, run: Any, tmp_path: Path) -> None:
    process = spawn("serve", "--data-dir", str(tmp_path / "data"), "--http", "127.0.0.1:0", "--log-format", "json")
    ready = json.loads(process.stdout.readline())
    at = ("--bootstrap", ready["http"])
    run("topic", "create", "t", "-p", "2", *at)
    run("topic", "alter", "t", "--config", "retention.ms=1000", "--yes", *at)
    run("produce", "t", *at, stdin=b"a-record-that-nobody-logs\n")
    run("topic", "delete", "t", "--yes", *at)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    lines = read_events(process)
    told = [line for line in lines if line["event"] in EVENTS]
    assert [line["timestamp"] for line in lines] == sorted(line["timestamp"] for line in lines)
    assert "a-record-that-nobody-logs" not in json.dumps(lines)
    for line in told:
        assert line.keys() - _STANDARD <= EVENTS[line["event"]].fields
        assert line["level"] == logging.getLevelName(EVENTS[line["event"]].level).lower()
    names = [line["event"] for line in told]
    once = ["process_started", "controller_leader_changed", "broker_registered", "process_ready", "topic_created"]
    once += ["topic_altered", "topic_deleted", "process_stopping", "process_stopped"]
    assert [name for name in names if name in once] == once, names
    assert {name: names.count(name) for name in ("replica_added", "replica_removed", "leader_elected")} == {
        "replica_added": 2,
        "replica_removed": 2,
        "leader_elected": 3,
    }
    created = next(line for line in told if line["event"] == "topic_created")
    assert (created["topic"], created["partitions"], created["replication_factor"]) == ("t", 2, 1)
    altered = next(line for line in told if line["event"] == "topic_altered")
    assert (altered["set"], altered["unset"]) == ({"retention.ms": "1000"}, [])


def test_events_before_a_start_are_not_repeated(spawn: Any, run: Any, tmp_path: Path) -> None:
    told = []
    for number in range(2):
        process = spawn("serve", "--data-dir", str(tmp_path / "data"), "--http", "127.0.0.1:0", "--log-format", "json")
        ready = json.loads(process.stdout.readline())
        run("topic", "create", f"t{number}", "--bootstrap", ready["http"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        told.append([line["topic"] for line in read_events(process) if line["event"] == "topic_created"])
    assert told == [["t0"], ["t1"]]
