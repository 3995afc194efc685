"""The comparison of systems, without running them: medians, noise marks, the chart, rows without a measurement."""

import os
import subprocess
import sys
import time
from contextlib import nullcontext
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.measure import MeasureFailed
from bench.race.accounting import CpuMeter, run_generator
from bench.race.command import all_systems
from bench.race.report import Run, SystemResult, race_tables, repeat_disturbed, write_chart
from bench.race.system import COLUMNS, MEASURES, TRANSACTION_COLUMNS, RunningSystem, System


def make_result(key: str, *per_s: float, others: float = 0.0, **errors: str) -> SystemResult:
    system = System(key, key.upper(), "synced", lambda _: nullcontext(RunningSystem(list, {})))
    runs = [Run({"per_s": each, "p99": each / 1000}, 1.0, others) for each in per_s]
    return SystemResult(system, {"closed": runs} if runs else {}, errors)


def print_table(*results: SystemResult) -> str:
    console = Console(file=StringIO(), width=240)
    for table in race_tables(results):
        console.print(table)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_row_has_medians_and_marks_a_busy_machine() -> None:
    quiet, busy = (
        print_table(make_result("raftlog", 9_000, 1_000, 2_000)),
        print_table(make_result("kafka", 5.0, others=0.3)),
    )
    assert "2,000" in quiet
    assert "9,000" not in quiet
    assert "!" not in quiet
    assert "30% !" in busy


def test_failed_and_missing_measurements_have_no_figure() -> None:
    shown = print_table(make_result("etcd", produce="full"))
    assert shown.count("failed") == 1
    assert shown.count("–") == len(COLUMNS) - 1


def test_transactions_have_a_table_of_their_own_once_some_were_measured() -> None:
    assert "transactions" not in print_table(make_result("etcd", 1.0))
    result = make_result("kafka", transactions_stall="no coordinator")
    result.runs["transactions"] = [Run({"per_s": 321.0, "commit_p50": 4.0, "commit_p99": 9.0}, 1.0, 0.0)]
    shown = print_table(result, make_result("etcd", 1.0))
    title, _, transactions = shown.partition("medians of transactions")
    assert "321" in transactions
    assert transactions.count("failed") == 1
    assert "ETCD" in title
    assert "ETCD" not in transactions


def test_the_chart_has_a_bar_for_each_measured_system(tmp_path: Path) -> None:
    write_chart(
        [make_result("raftlog", 14_000), make_result("kafka", 9_000), make_result("etcd")], tmp_path / "chart.svg"
    )
    chart = (tmp_path / "chart.svg").read_text()
    assert "RAFTLOG (synced)" in chart
    assert "14,000" in chart
    assert "ETCD" not in chart
    assert "<script" not in chart


def test_every_column_belongs_to_a_measure_and_keys_are_distinct() -> None:
    columns = (*COLUMNS, *TRANSACTION_COLUMNS)
    assert {column.measure for column in columns} == {measure.key for measure in MEASURES}
    keys = [system.key for system in all_systems(sys.executable)]
    assert len(keys) == len(set(keys))


def test_the_error_of_a_failed_load_includes_its_output() -> None:
    with pytest.raises(MeasureFailed, match=r"(?s)exit code 3 .*no brokers"):
        run_generator([sys.executable, "-c", "import sys; print('no brokers'); sys.exit(3)"])
    with pytest.raises(MeasureFailed, match=r"within 0\.2 s"):
        run_generator(["sleep", "60"], seconds=0.2)


def test_cpu_time_of_the_nodes_is_separate_from_that_of_other_processes() -> None:
    spin = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", spin], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as node:
        meter = CpuMeter([node.pid])
        assert node.stdout is not None
        begin = time.monotonic()
        node.stdout.readline()
        nodes, others = meter.shares()
        elapsed = time.monotonic() - begin
        node.communicate(b"\n")
    assert nodes * elapsed == pytest.approx(0.3, abs=0.15)
    assert 0 <= others <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("others", "kept"),
    [
        ((0.2, 0.0, 0.1), [0.0, 0.1, 0.2]),
        ((0.5, 0.0, 0.9, 0.1, 0.2), [0.0, 0.1, 0.2]),
        ((0.9, 0.0, 0.8, 0.7, 0.1, 0.3), [0.0, 0.1, 0.3]),
    ],
)
def test_disturbed_runs_are_repeated_but_not_for_ever(others: tuple[float, ...], kept: list[float]) -> None:
    runs = iter([Run({}, 1.0, each) for each in others])
    assert [run.others for run in repeat_disturbed(lambda: next(runs), 3)] == kept
    assert next(runs, None) is None
