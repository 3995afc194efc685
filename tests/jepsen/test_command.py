"""`python -m jepsen test` with real brokers: a leader's crash, Ctrl-C, exit codes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import jepsen

ROOT = Path(jepsen.__file__).parents[1]


def build_command(*arguments: str, store: Path) -> list[str]:
    return [sys.executable, "-m", "jepsen", "test", "--store", str(store), *arguments]


def only_run(store: Path) -> Path:
    (found,) = store.iterdir()
    return found


def list_processes(store: Path) -> list[str]:
    """Return the command lines of processes that use the store."""
    lines = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            line = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(store) in line:
            lines.append(line)
    return lines


def test_three_brokers_survive_several_kinds_of_faults(tmp_path: Path) -> None:
    """These kinds fit into a few seconds; `make jepsen` and the suite have all of them."""
    faults = ("kill", "power", "pause", "stall", "cut", "packet")
    arguments = (
        "--faults",
        ",".join(faults),
        "--time",
        "12",
        "--clients",
        "2",
        "--rate",
        "60",
        "--seed",
        "4",
        "--json",
    )
    done = subprocess.run(
        build_command(*arguments, store=tmp_path), cwd=ROOT, check=False, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(done.stdout)
    assert results["verdict"] == "valid"
    assert {each["fault"]["kind"] for each in results["faults"]} == set(faults)
    assert all(each["fault"]["proof"] for each in results["faults"])
    assert results["acknowledged_records"] > 100
    assert results["anomalies"] == {}
    run = only_run(tmp_path)
    assert (run / "logs" / "node-3.log").stat().st_size > 0
    assert not (run / "data").exists(), "of a valid run only the findings are kept"
    assert json.loads((run / "timeline.json").read_text())["happened"]
    assert "VALID" in (run / "report.txt").read_text()
    assert (run / "index.html").stat().st_size > 0
    assert list_processes(tmp_path) == []


@pytest.mark.slow
def test_a_scenario_ends_valid_with_a_history_and_a_page(tmp_path: Path) -> None:
    arguments = (sys.executable, "-m", "jepsen", "suite", "--only", "f2", "--seed", "3", "--store", str(tmp_path))
    done = subprocess.run(arguments, cwd=ROOT, check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    suite = only_run(tmp_path)
    (row,) = json.loads((suite / "suite.json").read_text())
    assert (row["number"], row["verdict"]) == ("F2", "valid")
    assert (suite / row["folder"] / "history.jsonl").stat().st_size > 0
    assert (suite / "index.html").stat().st_size > 0
    assert list_processes(tmp_path) == []


def test_the_error_for_an_unknown_scenario_lists_the_known_ones(tmp_path: Path) -> None:
    arguments = (sys.executable, "-m", "jepsen", "suite", "--only", "F99", "--store", str(tmp_path))
    done = subprocess.run(arguments, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "F1" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["idempotent", "groups", "handlers", "compaction", "trimming"])
def test_other_workloads_survive_kills_too(workload: str, tmp_path: Path) -> None:
    arguments = ("--workload", workload, "--faults", "kill", "--time", "12", "--clients", "2", "--rate", "150")
    done = subprocess.run(
        build_command(*arguments, "--seed", "3", "--json", store=tmp_path),
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(done.stdout)
    assert results["verdict"] == "valid"
    if workload == "groups":
        assert results["outcomes"]["join"]["ok"] > 0
    if workload == "handlers":
        assert results["outcomes"]["handle"]["ok"] > 0
    if workload == "trimming":
        assert results["outcomes"]["trim"]["ok"] > 0


def test_ctrl_c_ends_every_process_and_keeps_the_history(tmp_path: Path) -> None:
    arguments = ("--faults", "pause", "--nodes", "1", "--clients", "2", "--time", "60", "--seed", "1")
    with subprocess.Popen(
        build_command(*arguments, store=tmp_path), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        assert any("pause node 1" in line for line in running.stderr), "it says what happens"
        os.kill(running.pid, signal.SIGINT)
        told, _ = running.communicate(timeout=60)
    assert running.returncode == 130, told
    assert "interrupted" in told
    run = only_run(tmp_path)
    assert (run / "history.jsonl").stat().st_size > 0
    assert json.loads((run / "results.json").read_text())["verdict"] == "unknown"
    assert (run / "data").exists()
    assert list_processes(tmp_path) == []


@pytest.mark.parametrize(
    "arguments", [("--faults", "fire"), ("--nodes", "1", "--faults", "cut"), ("--workload", "tea")]
)
def test_contradictory_options_are_refused(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        build_command(*arguments, store=tmp_path), cwd=ROOT, check=False, capture_output=True, timeout=60
    )
    assert done.returncode == 2
    assert b"Usage" in done.stderr
