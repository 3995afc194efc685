"""Command lines that are refused, and Ctrl-C outside of a run; nothing is started."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from jepsen.control import command as control_command
from jepsen.control.command import control
from jepsen.planted import detection
from jepsen.planted.__main__ import main as planted
from jepsen.runner import command as test_command
from jepsen.runner.command import test as run_test
from jepsen.runner.suite import suite


def invoke(verb: click.Command, arguments: Sequence[str]) -> tuple[int, str]:
    done = CliRunner().invoke(verb, list(arguments))
    return done.exit_code, done.output


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "0", "1e300"])
@pytest.mark.parametrize(("verb", "option"), [(run_test, "--time"), (run_test, "--rate"), (control, "--time")])
def test_invalid_and_absurd_numbers_are_refused(verb: click.Command, option: str, number: str, tmp_path: Path) -> None:
    code, words = invoke(verb, [option, number, "--store", str(tmp_path)])
    assert code == 2
    assert "is not in the range" in words
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("nodes", "faults", "refused"),
    [
        ("1", "all", ["cut", "packet", "damage", "members"]),
        ("1", "kill,packet", ["packet"]),
        ("2", "damage,cut", ["damage"]),
    ],
)
def test_faults_that_need_more_nodes_are_refused(nodes: str, faults: str, refused: list[str], tmp_path: Path) -> None:
    code, words = invoke(run_test, ["--nodes", nodes, "--faults", faults, "--store", str(tmp_path)])
    assert code == 2
    assert re.findall(r"(\w+) needs --nodes", words) == refused
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("verb", "more"), [(run_test, ()), (suite, ("--only", "F1")), (control, ())])
def test_a_store_that_cannot_be_created_is_refused(verb: click.Command, more: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, words = invoke(verb, [*more, "--store", str(tmp_path / "file" / "below")])
    assert code == 2
    assert "runs cannot be kept in" in words


def test_ctrl_c_during_the_check_returns_exit_code_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(test_command, "run", interrupt)
    monkeypatch.setattr(control_command, "run_case", interrupt)
    for verb in (run_test, control):
        code, words = invoke(verb, ["--store", str(tmp_path)])
        assert code == 130
        assert "the history is in" in words


def test_options_of_the_other_hunt_are_refused() -> None:
    for arguments in (["--sound"], ["--seed", "1"], ["--real", "--from", "3"], ["--real", "--jobs", "1"]):
        assert invoke(planted, arguments)[0] == 2


def test_ctrl_c_ends_all_real_hunts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hunted: list[str] = []

    def interrupt(options: Any, *_: Any) -> dict[str, Any]:
        hunted.append(options.bug)
        return {"verdict": "unknown", "broken": "interrupted", "anomalies": {}, "doubts": []}

    monkeypatch.setattr(detection, "run", interrupt)
    monkeypatch.setattr(detection, "unsupported_reason", lambda kinds: None)
    assert invoke(planted, ["--real", "--runs", "3", "--store", str(tmp_path)])[0] == 130
    assert len(hunted) == 1


def test_missing_requirements_of_the_control_are_named_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_command, "unsupported_reason", lambda kinds: f"{', '.join(kinds)}: no compiler")
    code, words = invoke(control, ["--case", "power", "--store", str(tmp_path)])
    assert code == 2
    assert "power: no compiler" in words
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_the_whole_control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[str] = []

    def interrupt(options: Any, folder: Any, _progress: Any) -> dict[str, Any]:
        played.append(options.case_name)
        folder.write_text("report.txt", "")
        return {"verdict": "unknown", "broken": "interrupted"}

    monkeypatch.setattr(control_command, "run_case", interrupt)
    assert invoke(control, ["--store", str(tmp_path)])[0] == 130
    assert len(played) == 1
