"""Rate at which a disk fills: from samples of two minutes, by the caller's clock."""

from raftlog.runtime.replica.disk_trend import INTERVAL_S, SAMPLES_MAX, SPAN_S_MIN, DiskTrend

MIB = 1 << 20


def note_steadily(trend: DiskTrend, seconds: int, bytes_per_s: int, *, at: int = 0, free: int = 1_000 * MIB) -> int:
    """Add a sample each second, as ticks do more often; return the free bytes at the end."""
    for second in range(seconds):
        trend.note(float(at + second), free - second * bytes_per_s)
    return free - seconds * bytes_per_s


def test_no_rate_before_the_shortest_span() -> None:
    trend = DiskTrend()
    assert trend.shrinking_bytes_per_s() is None
    note_steadily(trend, int(SPAN_S_MIN), MIB)
    assert trend.shrinking_bytes_per_s() is None
    trend.note(SPAN_S_MIN, 0)
    assert trend.shrinking_bytes_per_s() is not None


def test_the_rate_is_that_of_the_last_two_minutes() -> None:
    trend = DiskTrend()
    free = note_steadily(trend, 600, 5 * MIB)
    assert trend.shrinking_bytes_per_s() == 5 * MIB
    window = int(INTERVAL_S) * SAMPLES_MAX
    free = note_steadily(trend, window, MIB, at=600, free=free)
    assert trend.shrinking_bytes_per_s() == MIB
    note_steadily(trend, window, -MIB, at=600 + window, free=free)
    assert trend.shrinking_bytes_per_s() == -MIB
    assert len(trend._samples) == SAMPLES_MAX
