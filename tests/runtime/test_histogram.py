"""Latencies in buckets, compared with the bounds of the buckets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.runtime.histogram import BOUNDS_S, Histogram


@given(st.lists(st.one_of(st.sampled_from(BOUNDS_S), st.floats(0, 20))))
def test_each_bucket_counts_latencies_up_to_its_bound(seconds: list[float]) -> None:
    histogram = Histogram()
    for each in seconds:
        histogram.observe(each)
    rows = histogram.cumulative_buckets()
    assert [bound for bound, _ in rows] == [*map(str, BOUNDS_S), "+Inf"]
    at_most = [sum(each <= bound for each in seconds) for bound in BOUNDS_S]
    assert [count for _, count in rows] == [*at_most, len(seconds)]
    assert histogram.sum_s == pytest.approx(sum(seconds))
