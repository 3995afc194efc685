"""Check of timestamps against the clock of the broker that receives the records, by the settings of their topic.

    now - message.timestamp.before.max.ms ≤ timestamp ≤ now + message.timestamp.after.max.ms

A stored batch is checked by its header, at a cost per batch: the timestamp of its first record and the greatest one.
A record without a timestamp passes, as at Kafka's brokers."""

from collections.abc import Callable, Iterable
from typing import Final

from raftlog.errors import InvalidTimestamp
from raftlog.records import BatchHeader, NewRecord
from raftlog.topic_config import TopicConfig
from raftlog.types import Buffer

_NO_TIMESTAMP: Final = -1
_RECORD: Final = "a record"


def check_batch_timestamps(
    name: str, config: TopicConfig, batches: Iterable[tuple[BatchHeader, Buffer]], wall_ms: Callable[[], int]
) -> None:
    """Raise `InvalidTimestamp` for a batch with a timestamp below -1, or outside of the topic's bounds."""
    now_ms = wall_ms() if config.bounds_timestamps else None
    for number, (header, _) in enumerate(batches):
        first, last = header.base_timestamp, header.max_timestamp
        if first < _NO_TIMESTAMP or last < _NO_TIMESTAMP:
            raise InvalidTimestamp(
                f"{name}: batch {number} has the timestamp {min(first, last)}; timestamps are milliseconds since 1970, "
                "or -1 for none; nothing was appended"
            )
        if now_ms is not None:
            for timestamp in (first, last):
                _check(name, config, f"batch {number}", timestamp, now_ms)


def check_record_timestamps(name: str, config: TopicConfig, records: Iterable[NewRecord], now_ms: int) -> None:
    """Raise `InvalidTimestamp` for a record with a timestamp outside of the topic's bounds."""
    for record in records:
        if record.timestamp is not None:
            _check(name, config, _RECORD, record.timestamp, now_ms)


def _check(name: str, config: TopicConfig, which: str, timestamp: int, now_ms: int) -> None:
    """Raise `InvalidTimestamp` for a timestamp outside of the topic's bounds; `which` names its record in the error."""
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if timestamp == _NO_TIMESTAMP:
        return
    if before is not None and timestamp < now_ms - before:
        setting, bound, side = "message.timestamp.before.max.ms", before, "before"
    elif after is not None and timestamp > now_ms + after:
        setting, bound, side = "message.timestamp.after.max.ms", after, "after"
    else:
        return
    raise InvalidTimestamp(
        f"{name}: {which} has the timestamp {timestamp}, {abs(timestamp - now_ms)} ms {side} this broker's clock; "
        f"{setting} is {bound}; nothing was appended; check the producer's clock, or raise the setting of the topic"
    )
