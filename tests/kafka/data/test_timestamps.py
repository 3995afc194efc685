"""Bounds of timestamps in Produce: INVALID_TIMESTAMP outside of them, per partition, by the clock of the leader."""

import time

import pytest

from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.partitions.deadline import deadline_in
from tests.kafka.data.requests import Handlers, make_batch

HOUR_MS = 3_600_000
BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"


@pytest.mark.parametrize(
    ("setting", "distance_ms", "code"),
    [
        (BEFORE, -2 * HOUR_MS, ErrorCode.INVALID_TIMESTAMP),
        (BEFORE, -HOUR_MS // 2, 0),
        (BEFORE, 2 * HOUR_MS, 0),
        (AFTER, 2 * HOUR_MS, ErrorCode.INVALID_TIMESTAMP),
        (AFTER, HOUR_MS // 2, 0),
        (AFTER, -2 * HOUR_MS, 0),
    ],
)
async def test_timestamps_outside_of_the_bounds_are_refused(
    lone: Handlers, setting: str, distance_ms: int, code: int
) -> None:
    await lone.broker.alter_topic_config("t", {setting: str(HOUR_MS)}, deadline=deadline_in(10_000))
    row = await lone.produce(make_batch(b"a", timestamp=round(time.time() * 1000) + distance_ms))
    assert row.error_code == code
    assert (await lone.list_offset(-1)).offset == (0 if code else 1)
    if code:
        assert setting in row.error_message
        assert row.error_message.startswith("t/0: batch 0 has the timestamp")


async def test_every_timestamp_but_negative_ones_is_stored_by_default(lone: Handlers) -> None:
    for number, timestamp in enumerate((0, 1, (1 << 63) - 1)):
        assert (await lone.produce(make_batch(b"a", timestamp=timestamp))).base_offset == number


async def test_a_changed_bound_counts_for_the_next_batch(lone: Handlers) -> None:
    async def change(value: str | None) -> int:
        await lone.broker.alter_topic_config("t", {BEFORE: value}, deadline=deadline_in(10_000))
        return (await lone.produce(make_batch(b"a", timestamp=1))).error_code

    assert [await change(value) for value in ("1000", "-1", "1000", None)] == [
        ErrorCode.INVALID_TIMESTAMP,
        0,
        ErrorCode.INVALID_TIMESTAMP,
        0,
    ]
