"""The whole pipeline (clients, nemesis, merge, drain, checkers) detects broken logs and passes correct ones."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from jepsen.checkers import read_lines
from jepsen.runner.options import RunOptions
from jepsen.runner.run import exit_code, run
from jepsen.runner.store import Store
from jepsen.runner.system import SystemFailed
from tests.jepsen.fake_log import FakeLog

SECONDS = 3.0


def run_and_check(bug: str | None, directory: Path) -> tuple[dict[str, Any], Store]:
    options = RunOptions("plain", ("kill",), SECONDS, nodes=2, clients=1, rate=300.0, seed=5, recovery_s=1.5)
    store = Store(directory, options)
    return run(options, FakeLog(bug), store, lambda *_told: None), store


def test_a_correct_log_passes_and_the_store_has_everything(tmp_path: Path) -> None:
    results, store = run_and_check(None, tmp_path)
    assert results["verdict"] == "valid", results["findings"]
    assert exit_code(results) == 0
    assert results["outcomes"]["send"]["ok"] > 50
    assert [each["fault"]["kind"] for each in results["faults"]] == ["kill"]
    assert {path.name for path in store.path.iterdir()} >= {
        "history.jsonl",
        "results.json",
        "report.txt",
        "index.html",
        "timeline.json",
        "logs",
    }
    with open(store.history, "rb") as lines:
        assert sum(1 for _ in read_lines(lines)) > 500
    assert "VALID" in (store.path / "report.txt").read_text()
    assert "drawn in" in (store.path / "report.txt").read_text()


class SlowToPause(FakeLog):
    """Log whose nodes cannot be paused until `SECONDS` after the first attempt."""

    def __init__(self) -> None:
        super().__init__()
        self._still_at = 0.0

    def pause(self, node: int) -> str:
        self._still_at = self._still_at or time.monotonic() + SECONDS
        return "it stands still" if time.monotonic() >= self._still_at else ""


def test_a_load_continues_until_every_kind_of_fault_had_an_effect(tmp_path: Path) -> None:
    options = RunOptions("plain", ("pause",), SECONDS, nodes=2, clients=1, rate=300.0, seed=5, recovery_s=1.5)
    store = Store(tmp_path, options)
    results = run(options, SlowToPause(), store, lambda *_told: None)
    assert results["verdict"] == "valid", results["doubts"]
    (seen,) = [each["fault"] for each in results["faults"]]
    assert "it stands still" in seen["proof"]
    assert SECONDS < seen["begin_s"] < results["load_s"]
    assert results["quiet"]["seconds"] < SECONDS, "an unseen effect may have done harm all the same"
    assert "Nothing was seen of it" in (store.path / "index.html").read_text()


EXPECTED = {
    "acknowledges and drops": {"inconsistent-offset", "lost-write"},
    "forgets at a kill": {"inconsistent-offset", "lost-write", "unseen", "stale-end"},
    "stores twice": {"duplicate"},
    "stores what it refuses": {"aborted-read"},
    "refuses everything": {"not-writable"},
    "breaks inside": {"traceback"},
}
"""Kinds of anomalies by planted bug, of which at least one has to be found."""


def test_broken_logs_are_detected(tmp_path: Path) -> None:
    with ThreadPoolExecutor(len(EXPECTED)) as pool:
        found = dict(zip(EXPECTED, pool.map(lambda bug: run_and_check(bug, tmp_path / bug), EXPECTED), strict=True))
    for bug, (results, store) in found.items():
        assert results["verdict"] == "invalid", bug
        assert exit_code(results) == 1
        assert EXPECTED[bug] & set(results["anomalies"]), (bug, results["anomalies"])
        assert "INVALID" in (store.path / "report.txt").read_text()
    doubts = found["refuses everything"][0]["doubts"]
    assert any("were acknowledged" in doubt for doubt in doubts), "it would not pass without the drain either"


def test_a_system_that_does_not_start_gets_no_verdict(tmp_path: Path) -> None:
    class NeverStarts(FakeLog):
        def start(self) -> None:
            raise SystemFailed("the port is in use")

    options = RunOptions("plain", ("kill",), SECONDS, nodes=2, clients=1, rate=300.0, seed=5)
    results = run(options, NeverStarts(), Store(tmp_path, options), lambda *_told: None)
    assert results["verdict"] == "unknown"
    assert exit_code(results) == 2
    assert results["broken"] == "the port is in use"
