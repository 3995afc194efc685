"""Scenarios: the catalogue, notes and expectations of a script, and the duration of its load."""

from pathlib import Path

import pytest

from jepsen.nemeses.fault import KINDS, InjectedFault
from jepsen.runner.options import RunOptions
from jepsen.runner.run import run
from jepsen.runner.stage import Stage
from jepsen.runner.store import Store
from jepsen.runner.trial import Outcome
from jepsen.runner.verdict import CheckResult, check_file
from jepsen.scenarios import crash, disk, pauses
from jepsen.scenarios.catalogue import SCENARIOS
from jepsen.scenarios.expectations import WriteGapBound
from jepsen.workloads.catalogue import WORKLOADS
from raftlog.types import TopicPartition
from tests.jepsen.fake_log import FakeLog

OPTIONS = RunOptions("plain", ("kill",), 0.5, nodes=2, clients=1, rate=300.0, seed=5, recovery_s=1.5)


def test_the_catalogue_is_complete_and_short_enough() -> None:
    """Each number has one scenario, with enough load and within the time of a suite."""
    mine = (*crash.SCENARIOS, *disk.SCENARIOS, *pauses.SCENARIOS)
    assert {each.number for each in mine} == {f"F{n}" for n in (*range(1, 20), *range(29, 33))}
    for number, scenario in SCENARIOS.items():
        assert scenario.number == number
        assert scenario.workload in WORKLOADS
        assert scenario.faults, number
        assert set(scenario.faults) <= set(KINDS)
        assert scenario.rate >= 500, number
        assert scenario.seconds <= 45, number


def test_a_script_runs_under_load_and_its_failed_expectation_is_reported(tmp_path: Path) -> None:
    def script(stage: Stage) -> None:
        stage.wait(3 * OPTIONS.seconds)
        with stage.fault("kill", 2):
            stage.wait(0.5)
        stage.wait_served()
        stage.expect(True, "all is well")
        stage.expect(False, "pigs fly")
        assert not stage.wait_until(lambda: False, "they come down", timeout_s=0.1)
        with stage.fault("kill", 1), stage.fault("kill", 1):
            pass

    store = Store(tmp_path, OPTIONS)
    results = run(
        OPTIONS, FakeLog(), store, lambda *_told: None, script, (lambda *_run: ["the moon is made of cheese"],)
    )
    assert results["verdict"] == "invalid"
    assert results["load_s"] > 4 * OPTIONS.seconds
    assert [fault["fault"]["what"] for fault in results["faults"]] == ["kill node 2", "kill node 1"]
    assert results["faults"][0]["acknowledged"] > 0, "there was load during the fault"
    assert set(results["anomalies"]) == {"expectation"}
    assert [finding["what"].partition(":")[0] for finding in results["findings"]] == [
        "does not hold",
        "not within 0.1 s",
        "nothing was seen of",
        "the moon is made of cheese",
    ]


PLACE = TopicPartition("narrow", 0)
KILL = InjectedFault("kill", "kill node 1", 2.0, 3.0, "ended with -9", 3.0)
OUTCOME = Outcome(
    schedule=(),
    happened=(KILL,),
    unseen=(),
    begin_ns=0,
    load_s=10.0,
    figures={},
    recovered_s=0.0,
    drained=None,
    findings=(),
    broken=None,
)


@pytest.fixture
def empty_result(tmp_path: Path) -> CheckResult:
    """Return the result of an empty history."""
    history = tmp_path / "history.jsonl"
    history.touch()
    return check_file(history, drained=True)


@pytest.mark.parametrize(("resumed_s", "holds"), [(4.5, True), (5.5, False)])
def test_the_time_without_writes_is_bounded(empty_result: CheckResult, resumed_s: float, holds: bool) -> None:
    for at_s in (1.0, 2.0, resumed_s, 9.0):
        empty_result.availability.record(round(at_s * 1e9), "ok", PLACE)
    assert (not list(WriteGapBound(3.0)(OPTIONS, OUTCOME, empty_result))) is holds
