"""Real brokers with planted bugs are detected by the external checkers, and brokers without them pass."""

from pathlib import Path

import pytest

from jepsen.planted import BUGS
from jepsen.planted.detection import PlayedRun, play, play_sound
from jepsen.planted.real import REAL, UNSEEN
from jepsen.runner.machine import unsupported_reason
from jepsen.scenarios.scenario import Scenario

SCENARIOS = {case.scenario.number: case.scenario for case in REAL.values()}
CHEAPEST = "acknowledge-duplicate-early"


def test_every_bug_has_a_real_scenario_or_a_reason() -> None:
    assert set(REAL) | set(UNSEEN) == set(BUGS)
    assert not set(REAL) & set(UNSEEN)
    assert len(REAL) >= 16
    assert all(case.detected_by and "broker-died" not in case.detected_by for case in REAL.values())


def _skip_if_unsupported(scenario: Scenario) -> Scenario:
    if (reason := unsupported_reason(scenario.faults)) is not None:
        pytest.skip(reason)
    return scenario


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=[] if bug == CHEAPEST else [pytest.mark.slow]) for bug in REAL]
)
def test_brokers_with_a_bug_are_detected(bug: str, tmp_path: Path) -> None:
    _skip_if_unsupported(REAL[bug].scenario)
    played = play(bug, tmp_path)
    assert played.is_right, played


@pytest.mark.slow
@pytest.mark.parametrize("number", SCENARIOS)
def test_brokers_without_a_bug_pass(number: str, tmp_path: Path) -> None:
    played: PlayedRun = play_sound(_skip_if_unsupported(SCENARIOS[number]), tmp_path)
    assert played.is_right, played
