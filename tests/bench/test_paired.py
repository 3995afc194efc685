"""Paired measurements: statistics of the rounds, order of the runs, and the source trees that they run."""

import sys
from pathlib import Path

import pytest

from bench.measure import MeasureFailed, NotMeasured, Values, Workspace
from bench.paired import MEASURES
from bench.paired.ratios import SLOWDOWN_MAX, Comparison, round_ratio
from bench.paired.report import is_acceptable
from bench.paired.rounds import PairedFigure, PairedMeasure, compare
from bench.paired.trees import Tree

TOP = Path(__file__).resolve().parents[2]


def test_a_ratio_is_the_second_run_over_the_first() -> None:
    assert round_ratio([2.0, 3.0, 3.0, 2.0]) == pytest.approx(1.5)
    assert round_ratio([2.0, 2.0, 8.0, 2.0]) == pytest.approx(2.0), "the pairs' geometric mean"


@pytest.mark.parametrize("drift", [0.5, 0.97, 1.0, 1.2, 3.0])
def test_a_drift_that_is_even_over_a_round_cancels(drift: float) -> None:
    speeds = [drift**turn for turn in range(4)]
    sides = (10.0, 11.0, 11.0, 10.0)
    assert round_ratio([side * speed for side, speed in zip(sides, speeds, strict=True)]) == pytest.approx(1.1)


@pytest.mark.parametrize("values", [[0.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, 1.0]])
def test_a_round_without_a_value_has_no_ratio(values: list[float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        round_ratio(values)


def test_the_figure_is_the_median_and_the_noise_is_the_farthest_control() -> None:
    compared = Comparison((1.01, 1.5, 0.9), (1.0, 1.02, 0.95), is_lower_better=True)
    assert compared.ratio == 1.01
    assert compared.noise == pytest.approx(1 / 0.95 - 1)
    assert Comparison((1.0,), (1.04,), is_lower_better=True).noise == pytest.approx(0.04)


def test_slowdown_is_positive_for_more_seconds_and_for_fewer_requests_per_second() -> None:
    seconds = Comparison((1.25,), (1.0,), is_lower_better=True)
    per_second = Comparison((0.8,), (1.0,), is_lower_better=False)
    assert seconds.slowdown == pytest.approx(0.25)
    assert per_second.slowdown == pytest.approx(0.25)
    assert not seconds.is_acceptable
    assert not per_second.is_acceptable
    assert Comparison((0.8,), (1.0,), is_lower_better=True).is_acceptable
    assert Comparison((1.25,), (1.0,), is_lower_better=False).is_acceptable


def test_the_tolerance_is_added_to_the_noise() -> None:
    quiet = 1.0, 1 + SLOWDOWN_MAX
    assert Comparison((quiet[1] - 0.001,), (1.0,), is_lower_better=True).is_acceptable
    assert not Comparison((quiet[1] + 0.001,), (1.0,), is_lower_better=True).is_acceptable
    assert Comparison((quiet[1] + 0.009,), (1.01,), is_lower_better=True).is_acceptable
    assert not Comparison((quiet[1] + 0.011,), (1.01,), is_lower_better=True).is_acceptable


SECONDS = PairedFigure("seconds", "seconds", "s", is_lower_better=True)


def two_trees(tmp_path: Path) -> list[Tree]:
    return [Tree(label, tmp_path, sys.executable, tmp_path) for label in ("other", "this")]


def test_rounds_alternate_and_the_control_runs_the_other_tree_alone(tmp_path: Path) -> None:
    ran: list[str] = []

    def run(tree: Tree, workspace: Workspace) -> Values:
        ran.append(tree.label)
        return {"seconds": 3.0 if tree.label == "this" else 2.0}

    measure = PairedMeasure("m", "a measure", "", (SECONDS,), run)
    outcome = compare(measure, two_trees(tmp_path), 2, Workspace(tmp_path), lambda _: None)
    assert ran == ["other", "this", "this", "other", *["other"] * 4] * 2
    compared = outcome.comparison(SECONDS)
    assert compared is not None
    assert compared.paired == pytest.approx((1.5, 1.5))
    assert compared.control == (1.0, 1.0)
    assert (outcome.median_of(SECONDS, 0), outcome.median_of(SECONDS, 1)) == (2.0, 3.0)
    assert not is_acceptable(outcome)
    assert outcome.as_json()["figures"]["seconds"]["slowdown"] == pytest.approx(0.5)


@pytest.mark.parametrize("error", [MeasureFailed("it broke"), NotMeasured("no wrk"), OSError("no room")])
def test_a_run_that_fails_is_not_acceptable(tmp_path: Path, error: Exception) -> None:
    def run(tree: Tree, workspace: Workspace) -> Values:
        raise error

    outcome = compare(
        PairedMeasure("m", "a measure", "", (SECONDS,), run),
        two_trees(tmp_path),
        3,
        Workspace(tmp_path),
        lambda _: None,
    )
    assert str(error) in (outcome.failure, outcome.skipped)
    assert outcome.comparison(SECONDS) is None
    assert not is_acceptable(outcome)


def test_a_run_imports_the_modules_of_its_own_tree(tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "raftlog").mkdir(parents=True)
    (other / "raftlog" / "__init__.py").write_text("")
    (other / "raftlog" / "cli.py").write_text("print('--data-dir')")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    older = Tree.open("other", other, sys.executable, scratch)
    assert older.secret_flags(scratch) == (), "a release that knows no cluster secret gets none"
    assert not list(other.rglob("__pycache__")), "nothing is written into the checkout"
    newer = Tree.open("this", TOP, sys.executable, scratch)
    flag, file = newer.secret_flags(scratch)
    assert (flag, Path(file).parent) == ("--cluster-secret-file", scratch)
    assert newer.secret_flags(scratch) == (flag, file), "one secret for all brokers"
    assert Path(file).stat().st_mode & 0o077 == 0


def test_a_checkout_without_raftlog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasureFailed, match="raftlog"):
        Tree.open("other", tmp_path, sys.executable, tmp_path)


def test_measures_have_distinct_names_and_figures() -> None:
    assert len({measure.name for measure in MEASURES}) == len(MEASURES)
    for measure in MEASURES:
        assert len({figure.key for figure in measure.figures}) == len(measure.figures)
