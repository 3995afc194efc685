"""Latency percentiles, counts of reasons, and the longest gap without success."""

import pytest

from raftlog.loadgen.tally import Latencies, Reasons, SuccessGap


def test_percentiles_are_exact_to_three_digits() -> None:
    latencies = Latencies()
    for number in range(1, 10_001):
        latencies.add(number / 1_000_000)
    for percent in (1, 50, 95, 99, 99.9, 100):
        assert latencies.percentile_ms(percent) == pytest.approx(percent / 10, rel=0.001)
    found = latencies.as_json()
    assert found["p99"] == pytest.approx(9.9, rel=0.001)
    assert found["mean"] == pytest.approx(5.0, rel=0.001)


def test_merged_latencies_have_the_percentiles_of_all_samples() -> None:
    one, two = Latencies(), Latencies()
    for _ in range(99):
        one.add(0.001)
    two.add(1.0)
    one.merge(two)
    assert len(one) == 100
    assert one.percentile_ms(99) == pytest.approx(1, rel=0.001)
    assert one.percentile_ms(100) == pytest.approx(1000, rel=0.001)


def test_out_of_range_latencies_are_counted() -> None:
    latencies = Latencies()
    latencies.add(0.0)
    latencies.add(10_000.0)
    assert len(latencies) == 2
    assert latencies.percentile_ms(100) == pytest.approx(3_600_000, rel=0.001)


def test_latencies_without_samples_are_empty() -> None:
    assert Latencies().as_json() == {}


def test_the_longest_gap_counts_from_the_start_of_the_run() -> None:
    gap = SuccessGap(10.0)
    for at in (13.0, 14.0):
        gap.close_gap(at)
    assert gap.longest_s == 3.0
    gap.close_gap(20.0)
    assert gap.longest_s == 6.0


def test_reasons_are_bounded() -> None:
    reasons = Reasons()
    for number in range(1000):
        reasons.add(f"reason {number}")
    assert len(reasons.counts) == 33
    assert reasons.counts["others"] == 1000 - 32
