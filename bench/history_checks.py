"""Measure of the time and memory of the checkers of `jepsen` for a history of a million operations."""

import resource
import time
from pathlib import Path

from bench.child import run_in_child
from bench.generated_histories import generate_history
from bench.measure import Figure, Measure, Values, Workspace, require
from jepsen.runner.verdict import check_file

OPERATIONS = 1_000_000
_KIB = 1 << 10
_MIB = 1 << 20


def generate(path: str, operations: int) -> dict[str, float]:
    """Write the history; in a child process."""
    generate_history(Path(path), operations)
    return {"mib": Path(path).stat().st_size / _MIB}


def check(path: str) -> dict[str, float]:
    """Check a history as at the end of a Jepsen run; in a child process."""
    begin, cpu = time.perf_counter(), time.process_time()
    checked = check_file(Path(path), drained=True)
    return {
        "seconds": time.perf_counter() - begin,
        "cpu_s": time.process_time() - cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB,
        "operations": checked.operations,
        "found": sum(checked.findings.counts.values()),
        "acknowledged_sends": checked.acknowledged,
        "polled_records": checked.polled_records,
    }


def run(workspace: Workspace) -> Values:
    with workspace.directory() as directory:
        path = str(directory / "history.jsonl")
        workspace.show_stage("generating the history")
        generated = run_in_child(generate, path=path, operations=OPERATIONS)
        workspace.show_stage("checking it")
        values = run_in_child(check, path=path)
    require(values["operations"] >= OPERATIONS, f"{values['operations']} operations were checked")
    require(not values["found"], f"{values['found']} anomalies were found in a sound history")
    return {**values, "history_mib": generated["mib"]}


MEASURES = (
    Measure(
        "jepsen-checking",
        "jepsen: checks of a million operations",
        "A generated history with the mix of a real run (sends, polls, lists, commits; a quarter of the sends "
        "refused, a seventh unknown; everything is read by twelve readers, and by three more at the end) is checked "
        "as at the end of every test, with all checkers, from the file to the findings, in a fresh process.",
        (
            Figure("seconds", "checked", "s", at_most=60),
            Figure("peak_mib", "memory, at most", "MiB", at_most=2048),
            Figure("polled_records", "records in polls", ""),
        ),
        run,
    ),
)
