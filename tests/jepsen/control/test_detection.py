"""`python -m jepsen.control`: losses by the library are detected, and it passes without their cause."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import jepsen
from jepsen.disk import unsupported_reason

pytestmark = pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason()))

ROOT = Path(jepsen.__file__).parents[1]
LOSSES = {"lost-write", "inconsistent-offset", "offset-order", "unseen", "end-went-back", "nonmonotonic-send"}


def run(store: Path, *arguments: str) -> dict[str, Any]:
    """Run one case; check its exit code and return its results."""
    done = subprocess.run(
        [sys.executable, "-m", "jepsen.control", "--store", str(store), "--json", *arguments],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 0) == (results["verdict"] == "valid"), results["anomalies"]
    return results


def find_proof(results: dict[str, Any]) -> str:
    return str(results["faults"][0]["fault"]["proof"])


def test_a_power_loss_removes_unsynced_files_and_keeps_synced_ones(tmp_path: Path) -> None:
    asked = ("--case", "power", "--time", "5", "--seed", "1")
    with ThreadPoolExecutor() as pool:
        twin = pool.submit(run, tmp_path / "repaired", *asked, "--repaired")
        results, repaired = run(tmp_path / "as it is", *asked), twin.result()
    assert results["verdict"] == "invalid"
    assert LOSSES.intersection(results["anomalies"])
    assert "never syncs" in results["explanation"]
    assert "had synced 0 times" in find_proof(results)
    assert " 0 were not there in the end" not in results["explanation"]
    assert repaired["anomalies"] == {}
    assert repaired["verdict"] == "valid"
    assert "had synced 0 times" not in find_proof(repaired)
    assert " 0 were not there in the end" in repaired["explanation"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("case", ["power", "heartbeat"])
def test_losses_are_detected_in_all_runs_and_never_without_the_cause(case: str, seed: int, tmp_path: Path) -> None:
    results = run(tmp_path, "--case", case, "--seed", str(seed))
    assert LOSSES.intersection(results["anomalies"])
    results = run(tmp_path, "--case", case, "--seed", str(seed), "--repaired")
    assert results["anomalies"] == {}
    assert results["verdict"] == "valid"
