"""`raftlog pipeline …` without Spark: arguments of the jobs, printed reports, and exit codes.

The jobs are stood in for; `tests/pipeline/spark/test_cli.py` and the walk-through run them.
"""

import json
import sys
import threading
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from raftlog import pipeline
from raftlog.cli import main
from raftlog.cli.pipeline import job as pipeline_job
from raftlog.cli.pipeline.replay import read_targets
from raftlog.client import BrokerAddresses
from tests.waiting import WITHIN_S

BOOTSTRAP = "127.0.0.1:1"


class Report(NamedTuple):
    """Report of a fake job."""

    found: dict[str, object]
    is_sound: bool = True

    def as_json(self) -> Mapping[str, object]:
        return self.found


class CommandResult(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


class FakeJobs:
    """Fake of the jobs that records their calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.sessions: list[tuple[Any, ...]] = []
        self.stopped = 0
        self.report = Report({"rows": 3})

    def session(self, *arguments: Any) -> SimpleNamespace:
        self.sessions.append(arguments)
        return SimpleNamespace(stop=self._stop)

    def _stop(self) -> None:
        self.stopped += 1

    def job(self, name: str) -> Callable[..., Report]:
        def run(spark: object, *arguments: Any, on_progress: pipeline.OnProgress, **options: Any) -> Report:
            on_progress(pipeline.Progress(name, 1, 2))
            self.calls.append((name, arguments, options))
            return self.report

        return run


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> FakeJobs:
    jobs = FakeJobs()
    monkeypatch.setattr(pipeline, "local_session", jobs.session, raising=False)
    for name in ("archive", "compact_archive", "replay", "verify"):
        monkeypatch.setattr(pipeline, name, jobs.job(name), raising=False)
    return jobs


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., CommandResult]:
    def run_here(*args: str) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["raftlog", "pipeline", *args])
        with pytest.raises(SystemExit) as ended:
            main()
        return CommandResult(int(ended.value.code or 0), *capsys.readouterr())

    monkeypatch.setenv("RAFTLOG_BOOTSTRAP", BOOTSTRAP)
    return run_here


def test_archive_reads_brokers_unless_data_directories_are_given(
    jobs: FakeJobs, run: Callable[..., CommandResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        pipeline, "Brokers", lambda bootstrap, **how: ("brokers", ",".join(bootstrap), how), raising=False
    )
    monkeypatch.setattr(pipeline, "Segments", lambda paths, **how: ("segments", *paths, how), raising=False)
    assert run("archive", "/lake", "a", "b", "--compression", "gzip", "--json") == CommandResult(0, '{"rows":3}\n', "")
    options = {"topics": ["a", "b"], "topics_pattern": None, "compression": "gzip", "fail_on_data_loss": True}
    assert jobs.calls.pop() == ("archive", (("brokers", BOOTSTRAP, {"skip_undecodable": False}), "/lake"), options)
    more = ("--accept-loss", "--skip-undecodable", "--data-dir", str(tmp_path))
    assert run("archive", "/lake", "--topics-pattern", "o.*", *more).code == 0
    options = {"topics": None, "topics_pattern": "o.*", "compression": "zstd", "fail_on_data_loss": False}
    assert jobs.calls.pop() == ("archive", (("segments", str(tmp_path), {"skip_undecodable": True}), "/lake"), options)
    for wrong in (("a", "--topics-pattern", "b"), ("--data-dir", str(tmp_path), "--bootstrap", "127.0.0.1:2")):
        assert run("archive", "/lake", *wrong).code == 2
    assert jobs.stopped == 2


def test_without_a_terminal_each_long_step_prints_a_line(
    jobs: FakeJobs, run: Callable[..., CommandResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_job, "STEP_PRINTED_AFTER_S", 0.01)
    made, print_once = pipeline.local_session, pipeline_job._Steps.print_once
    is_printed = threading.Event()

    def print_and_note(steps: Any) -> None:
        print_once(steps)
        is_printed.set()

    def start_slowly(*args: Any) -> Any:
        assert is_printed.wait(WITHIN_S)
        return made(*args)

    monkeypatch.setattr(pipeline_job._Steps, "print_once", print_and_note)
    monkeypatch.setattr(pipeline, "local_session", start_slowly, raising=False)
    assert run("verify", str(tmp_path), "--json").err.splitlines()[0] == "starting Spark"


def test_sessions_receive_master_and_settings(
    jobs: FakeJobs, run: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("compact", "/lake", "--target-bytes", "7", "--grace-seconds", "1.5")
    assert jobs.sessions.pop() == ("raftlog pipeline compact", "local[*]", {})
    assert jobs.calls.pop() == ("compact_archive", ("/lake",), {"target_bytes": 7, "grace_seconds": 1.5})
    monkeypatch.setenv("RAFTLOG_SPARK_MASTER", "local[3]")
    run("compact", "/lake", "--conf", "spark.driver.memory=2g", "--conf", "a=b=c")
    assert jobs.sessions.pop() == ("raftlog pipeline compact", "local[3]", {"spark.driver.memory": "2g", "a": "b=c"})


def test_replay_passes_all_options_to_its_job(jobs: FakeJobs, run: Callable[..., CommandResult]) -> None:
    given = ("--to", "a=b", "--to", "c=d", "--spread", "--where", "offset > 3", "--records-per-second", "9")
    assert run("replay", "/lake", "a", "c", *given, "--name", "n", "--again").code == 0
    assert jobs.calls.pop() == (
        "replay",
        ("/lake", BrokerAddresses(BOOTSTRAP)),
        {
            "topics": ["a", "c"],
            "to": {"a": "b", "c": "d"},
            "keep_partitions": False,
            "where": "offset > 3",
            "records_per_second": 9,
            "name": "n",
            "again": True,
        },
    )
    assert (read_targets([]), read_targets(["t"])) == (None, "t")
    for wrong in (("--to", "a", "--to", "b"), ("--to", "=b"), ("--records-per-second", "0")):
        assert run("replay", "/lake", *wrong).code == 2


def test_damage_exits_with_1_and_is_printed(jobs: FakeJobs, run: Callable[..., CommandResult], tmp_path: Path) -> None:
    jobs.report = Report({"is_sound": True, "partitions": [{"topic": "t", "records": 12345}], "problems": []})
    done = run("verify", str(tmp_path))
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines()] == [
        ["is", "sound", "yes"],
        ["topic", "records"],
        ["t", "12,345"],
    ]
    jobs.report = Report({"is_sound": False, "problems": ["a/0: a hole", "[b]"]}, is_sound=False)
    done = run("verify", str(tmp_path))
    assert done.code == 1
    assert done.err.splitlines()[:2] == ["problem: a/0: a hole", "problem: [b]"]
    assert done.err.splitlines()[2].startswith("error: ")
    done = run("verify", str(tmp_path), "--json")
    assert (done.code, json.loads(done.out)["is_sound"]) == (1, False)


def test_info_packs_the_modules_that_executors_import(run: Callable[..., CommandResult], tmp_path: Path) -> None:
    done = run("info", "--py-files", str(tmp_path / "raftlog.zip"), "--json")
    assert done.code == 0
    assert json.loads(done.out)["missing"] == []
    with zipfile.ZipFile(tmp_path / "raftlog.zip") as packed:
        names = set(packed.namelist())
    assert {"raftlog/pipeline/brokers/source.py", "raftlog/pipeline/log4j2.properties", "raftlog/errors.py"} <= names
    assert not any("__pycache__" in name for name in names)
    first = (tmp_path / "raftlog.zip").read_bytes()
    run("info", "--py-files", str(tmp_path / "again.zip"))
    assert (tmp_path / "again.zip").read_bytes() == first


def test_every_public_name_exists() -> None:
    assert [name for name in pipeline.__all__ if getattr(pipeline, name, None) is None] == []
