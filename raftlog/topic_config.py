"""Settings of logs and topics, under Kafka's names.

A setting has one owner: `LogConfig` holds the settings of a log on disk, `TopicConfig` adds those of topics.
`None` means "no bound" and is written `-1` in text, as Kafka does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from raftlog.errors import InvalidArgument
from raftlog.setting_bounds import bounded_field, bounds_of

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
DAY_MS = 24 * 60 * 60 * 1000

DELETE, COMPACT = "delete", "compact"
CLEANUP_POLICIES = (DELETE, COMPACT, "compact,delete", "delete,compact")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of one log; sizes in bytes, times in milliseconds.

    An embedded log keeps all records by default: `retention_ms` and `retention_bytes` are `None`. Topics default to
    seven days (`TopicConfig`)."""

    segment_bytes: int = bounded_field(GIB, 4 * KIB, 64 * GIB)
    """Size that a segment must not exceed: it rolls before."""
    segment_ms: int = bounded_field(7 * DAY_MS, 1, 10 * 365 * DAY_MS)
    """Age of the roll entry at which a segment rolls."""
    segment_index_bytes: int = bounded_field(64 * MIB, 4 * KIB, GIB)
    """Size of the index, 44 bytes for each batch, at which a segment rolls."""
    retention_ms: int | None = bounded_field(None, 0, 1000 * 365 * DAY_MS)
    """Age of the newest record above which a closed segment is deleted."""
    retention_bytes: int | None = bounded_field(None, 0, 1 << 60)
    """Size of the log above which its oldest closed segments are deleted."""
    max_message_bytes: int = bounded_field(8 * MIB, 1 * KIB, 256 * MIB)
    """Size of the largest batch that is accepted."""
    flush_messages: int = bounded_field(1, 1, 1 << 40)
    """Number of records after which a sync is forced; with 1 an append is answered only when it is durable."""
    flush_ms: int | None = bounded_field(None, 1, DAY_MS)
    """Milliseconds after which unsynced records are synced, when `flush_messages` is above 1."""

    def __post_init__(self) -> None:
        """Raise `InvalidArgument` for a value out of range, and complete `flush_ms`."""
        for name, (low, high) in bounds_of(type(self)).items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise InvalidArgument(
                    f"{kafka_name(name)}={value} is out of range: it must be {low} to {high}"
                    + (", or be -1 for no bound" if name in UNBOUNDED else "")
                )
        if self.flush_messages > 1 and self.flush_ms is None:
            object.__setattr__(self, "flush_ms", 1000)

    @classmethod
    def from_strings(cls, settings: Mapping[str, str]) -> Self:
        """Return the settings given as text, such as `{"retention.ms": "60000"}`, over the defaults.

        Raises `InvalidArgument` with the name of a wrong setting and its bounds."""
        return cls().override(settings)

    def override(self, settings: Mapping[str, str]) -> Self:
        """Return a copy with some settings replaced; their values are text and are checked."""
        known = {kafka_name(field.name): field.name for field in fields(self)}
        changes: dict[str, Any] = {}
        for name, text in settings.items():
            if name not in known:
                raise InvalidArgument(f"unknown setting {name!r}; the settings are {', '.join(sorted(known))}")
            changes[known[name]] = _parse_value(name, known[name], text)
        return replace(self, **changes)

    def as_strings(self) -> dict[str, str]:
        """Return all settings as text, under Kafka's names."""
        return {kafka_name(field.name): _format_value(getattr(self, field.name)) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig(LogConfig):
    """Settings of a topic; the log of each of its partitions uses them unchanged."""

    retention_ms: int | None = bounded_field(7 * DAY_MS, 0, 1000 * 365 * DAY_MS)
    cleanup_policy: str = DELETE
    """`delete`: old segments are deleted by age and size. `compact`: the newest record of each key stays.

    Both: `compact,delete`.
    """
    min_insync_replicas: int = 1
    """Number of copies for which an `acks=all` answer waits, if it is more than a majority."""
    min_compaction_lag_ms: int = bounded_field(0, 0, 1000 * 365 * DAY_MS)
    """Age before which a record is never removed by compaction."""
    max_compaction_lag_ms: int | None = bounded_field(None, 1, 1000 * 365 * DAY_MS)
    """Age at which a record becomes due for compaction, even if little space is gained."""
    min_cleanable_dirty_ratio: float = bounded_field(0.5, 0, 1)
    """Share of the closed segments not compacted yet at which compaction runs."""
    delete_retention_ms: int = bounded_field(DAY_MS, 0, 1000 * 365 * DAY_MS)
    """Time for which a tombstone (record without a value) is kept after it was first compacted."""
    producer_id_expiration_ms: int = bounded_field(DAY_MS, 1, 1000 * 365 * DAY_MS)
    """Idle time after which the state of an idempotent producer is removed."""
    message_timestamp_before_max_ms: int | None = bounded_field(None, 0, 1000 * 365 * DAY_MS)
    """Distance from the broker's clock into the past above which a timestamp is refused."""
    message_timestamp_after_max_ms: int | None = bounded_field(None, 0, 1000 * 365 * DAY_MS)
    """Distance from the broker's clock into the future above which a timestamp is refused."""

    def __post_init__(self) -> None:
        """Raise `InvalidArgument` for values that are out of range or contradict each other."""
        LogConfig.__post_init__(self)
        if self.max_compaction_lag_ms is not None and self.max_compaction_lag_ms < self.min_compaction_lag_ms:
            raise InvalidArgument(
                f"max.compaction.lag.ms={self.max_compaction_lag_ms} is below min.compaction.lag.ms="
                f"{self.min_compaction_lag_ms}"
            )

    @property
    def is_compacted(self) -> bool:
        """Whether only the newest record of each key is kept."""
        return COMPACT in self.cleanup_policy

    @property
    def bounds_timestamps(self) -> bool:
        """Whether timestamps have to be near the broker's clock."""
        return self.message_timestamp_before_max_ms is not None or self.message_timestamp_after_max_ms is not None

    @property
    def segment_ms_max(self) -> int:
        """Age at which a segment rolls; at most `max_compaction_lag_ms`, since only closed segments are compacted."""
        if self.is_compacted and self.max_compaction_lag_ms is not None:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def deletes_old_segments(self) -> bool:
        """Whether old segments are deleted by age and size."""
        return DELETE in self.cleanup_policy


UNBOUNDED = (
    "retention_ms",
    "retention_bytes",
    "flush_ms",
    "max_compaction_lag_ms",
    "message_timestamp_before_max_ms",
    "message_timestamp_after_max_ms",
)


def kafka_name(field_name: str) -> str:
    """Return Kafka's name of a field: `retention_ms` → `retention.ms`."""
    return field_name.replace("_", ".")


def _format_value(value: Any) -> str:
    """Return a setting as text; None, without a bound, is -1."""
    return "-1" if value is None else str(value)


def _parse_value(name: str, field_name: str, text: str) -> float | str | None:
    """Return the value of a setting from its text; raises `InvalidArgument`."""
    if field_name == "cleanup_policy":
        if text not in CLEANUP_POLICIES:
            raise InvalidArgument(f"{name}={text!r} is not supported; it can be {', '.join(CLEANUP_POLICIES)}")
        return text
    if field_name == "min_cleanable_dirty_ratio":
        return _parse_ratio(name, text)
    try:
        number = int(text)
    except ValueError:
        raise InvalidArgument(f"{name}={text!r} is not a whole number") from None
    if field_name in UNBOUNDED and number == -1:
        return None
    if field_name == "min_insync_replicas" and number < 1:
        raise InvalidArgument(f"{name}={text} must be at least 1")
    return number


def _parse_ratio(name: str, text: str) -> float:
    """Return the number in the text. Raises `InvalidArgument`."""
    try:
        return float(text)
    except ValueError:
        raise InvalidArgument(f"{name}={text!r} is not a number from 0 to 1") from None
