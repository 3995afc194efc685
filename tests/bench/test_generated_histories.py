"""Histories generated for measurements: requested length, every kind of operation, and no finding of a checker."""

from pathlib import Path

from bench.generated_histories import generate_history
from jepsen.runner.verdict import check_file


def test_a_generated_history_is_clean_and_has_every_kind_and_outcome(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    generate_history(path, 6_000)
    checked = check_file(path, drained=True)
    assert not checked.findings.counts, checked.findings.shown[:3]
    assert 6_000 <= checked.operations <= 6_200
    assert set(checked.counts["send"]) == {"ok", "fail", "info"}
    assert {"assign", "poll", "list", "commit", "committed"} < set(checked.counts)
    assert checked.polled_records > 10 * sum(checked.acknowledged_by_partition.values())
