"""History of the console: bounded memory and work, rates and latencies from counters, and answers with columns."""

import asyncio
import math
import random
from typing import Any

import pytest

from raftlog.api.http.console import history_sampler
from raftlog.api.http.console.history import GROUPS_MAX, INTERVAL_S, SAMPLES_MAX, SERIES, History
from raftlog.api.http.console.history_sampler import (
    PAUSE_S,
    HistorySampler,
    Totals,
    compare_totals,
    estimate_quantile,
    next_pass_s,
)
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups.results import OffsetCommit
from raftlog.records import NewRecord
from raftlog.runtime.histogram import BOUNDS_S, Histogram
from raftlog.types import Offset, TopicPartition
from tests.waiting import until, until_async

HOUR_S = 3_600


def test_the_history_covers_an_hour_within_a_mebibyte() -> None:
    assert INTERVAL_S * SAMPLES_MAX == HOUR_S
    history = History()
    for number in range(2 * SAMPLES_MAX):
        history.append(number, {}, {f"g{(number + each) % 1_000}": each for each in range(300)})
    assert history.size_bytes == 8 * SAMPLES_MAX * (1 + len(SERIES) + GROUPS_MAX)
    assert history.size_bytes < 1 << 20


def test_old_samples_are_overwritten_in_order() -> None:
    history = History()
    for number in range(SAMPLES_MAX + 5):
        history.append(number, {"partitions": number}, {})
    places = history.places(0)
    assert history.times(places) == list(range(5, SAMPLES_MAX + 5))
    assert history.series("partitions", places) == history.times(places)
    assert history.series("log_bytes", places) == [None] * SAMPLES_MAX
    assert history.times(history.places(SAMPLES_MAX + 3)) == [SAMPLES_MAX + 3, SAMPLES_MAX + 4]


def test_the_groups_with_the_largest_lag_are_kept() -> None:
    history = History()
    history.append(0, {}, {f"small{number:03}": 1 + number for number in range(GROUPS_MAX)})
    history.append(
        1, {}, {f"small{number:03}": 1 + number for number in range(GROUPS_MAX)} | {"huge": 10**9, "tiny": 0}
    )
    groups = history.groups()
    assert groups[0] == "huge"
    assert "tiny" not in groups
    assert "small000" not in groups
    assert len(groups) == GROUPS_MAX
    assert history.lags("huge", history.places(0)) == [None, 10**9]
    assert history.lags("small005", history.places(0)) == [6, 6]
    assert history.lags("other", history.places(0)) is None


def test_a_group_that_has_gone_makes_room() -> None:
    history = History()
    history.append(0, {}, {f"old{number}": 5 for number in range(GROUPS_MAX)})
    history.append(1, {}, {"new": 0})
    assert "new" in history.groups()


def test_quantiles_lie_in_the_bucket_of_their_observation() -> None:
    draw = random.Random(1)
    for _ in range(200):
        histogram = Histogram()
        values = sorted(draw.uniform(0, 3) ** draw.choice((1, 4)) for _ in range(draw.randrange(1, 50)))
        for value in values:
            histogram.observe(value)
        for part in (0.5, 0.99):
            true = values[max(0, math.ceil(part * len(values)) - 1)]
            found = estimate_quantile(histogram.counts, BOUNDS_S, part)
            above = next((bound for bound in BOUNDS_S if bound >= true), BOUNDS_S[-1])
            below = max((bound for bound in BOUNDS_S if bound < true), default=0.0)
            assert below <= found <= above


def test_totals_become_rates_and_only_observed_latencies() -> None:
    counts = [0] * (len(BOUNDS_S) + 1)
    some = [*counts]
    some[3] = 4
    before = Totals(100.0, 1.0, {"records_in_per_s": 50}, {"produce": counts, "sync": counts})
    now = Totals(110.0, 1.5, {"records_in_per_s": 250}, {"produce": some, "sync": counts})
    found = compare_totals(before, now, {"produce": BOUNDS_S, "sync": BOUNDS_S})
    assert found["records_in_per_s"] == 20
    assert found["cpu_percent"] == 5
    assert 0.5 <= found["produce_p50_ms"] <= 1
    assert "sync_p50_ms" not in found


def test_passes_over_many_rows_are_rare() -> None:
    """A row takes less than `PAUSE_S` / 200, so that a pass takes half a percent of the time until the next one."""
    assert next_pass_s(0.0, 10) == INTERVAL_S / 2
    assert next_pass_s(0.0, 100_000) == 100_000 * PAUSE_S


async def sample(api: Any) -> None:
    """Sample twice, without waiting for the interval."""
    sampler = HistorySampler(api.broker, api.server._app.request_metrics, api.server._sampler._history)
    before = sampler.read_totals()
    await api.broker.produce_records("t", 0, [NewRecord(b"x")] * 50, deadline=deadline_in(10_000))
    await sampler.add_sample(before, sampler.read_totals())


async def test_the_answer_has_columns_of_equal_length(api) -> None:
    assert (await api.get("/console/api/history"))[1]["times_ms"] == []
    await api.create_topic()
    offsets = {TopicPartition("t", 0): OffsetCommit(Offset(0))}
    await api.broker.groups.commit("g", offsets, deadline=deadline_in(10_000))
    await sample(api)
    await sample(api)
    status, found = await api.get("/console/api/history?seconds=60")
    assert status == 200
    assert set(found["series"]) == set(SERIES)
    assert {len(column) for column in found["series"].values()} == {2}
    assert len(found["times_ms"]) == 2
    assert found["series"]["records_in_per_s"][0] > 0
    assert found["series"]["produce_p99_ms"][0] > 0
    assert found["series"]["partitions"][0] >= 1
    assert found["series"]["group_lag_total"] == [50, 100]
    assert found["groups"] == [{"group": "g", "lag": [50, 100]}]
    assert found["series"]["resident_bytes"][0] > 1 << 20
    assert (await api.get("/console/api/history?group=none"))[1]["groups"] == []
    for wrong in ("seconds=59", "seconds=3601", "seconds=x", "other=1"):
        assert (await api.get(f"/console/api/history?{wrong}"))[0] == 400


async def test_the_sampler_runs_with_the_server(start_api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_sampler, "INTERVAL_S", 0.01)
    api = await start_api()

    async def has_samples() -> object:
        return (await api.get("/console/api/history"))[1]["times_ms"]

    await until_async(has_samples)
    task = api.server._sampling
    await api.server.stop(1.0)
    await asyncio.wait((task,))
    assert task.cancelled()


async def test_without_the_console_nothing_is_sampled(start_api) -> None:
    api = await start_api(console="none")
    assert api.server._sampling is None


async def test_a_failed_sample_is_logged_and_left_out(api, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(history_sampler, "INTERVAL_S", 0.01)
    history = History()
    sampler = HistorySampler(api.broker, api.server._app.request_metrics, history)
    failures = iter([OSError("no disk"), OSError("no disk")])
    disk_space = sampler._measuring.disk_space

    def fail_twice() -> Any:
        error = next(failures, None)
        if error is not None:
            raise error
        return disk_space()

    monkeypatch.setattr(sampler._measuring, "disk_space", fail_twice)
    task = asyncio.ensure_future(sampler.run())
    await until(lambda: history.places(0))
    task.cancel()
    assert caplog.text.count("a sample of the console's history failed") == 2


@pytest.mark.parametrize("name", ["g" * 256, "", "a%00b"])
async def test_a_name_that_no_group_can_have_is_refused(api, name: str) -> None:
    status, error = await api.get(f"/console/api/history?group={name}")
    assert (status, error["error_code"]) == (400, 40002)
