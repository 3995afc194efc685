"""Generated histories for measuring have the requested length and every kind of operation, and pass all checkers."""

from pathlib import Path

from bench.generated_histories import generate_history
from jepsen.runner.verdict import judge


def test_a_generated_history_is_clean_and_has_every_kind_and_outcome(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    generate_history(path, 6_000)
    judged = judge(path, drained=True)
    assert not judged.findings.counts, judged.findings.shown[:3]
    assert 6_000 <= judged.operations <= 6_200
    assert set(judged.counts["send"]) == {"ok", "fail", "info"}
    assert {"assign", "poll", "list", "commit", "committed"} < set(judged.counts)
    assert judged.polled_records > 10 * sum(judged.acknowledged_by_partition.values())
