"""Topic configurations: all names of Kafka 3.9, and raftlog's own.

Names without a fixed value are settings of `raftlog.topic_config`. Their values are Kafka's text, except that Kafka
writes "no bound" as the highest number in names of `_LONG_MAX_UNBOUNDED`, where raftlog writes -1."""

from collections.abc import Iterable, Mapping
from typing import Final

from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.admin.config_catalogue import (
    LONG_MAX,
    ConfigName,
    ConfigType,
    index_by_name,
    is_one_of,
    list_of,
    unknown_name,
)
from raftlog.api.kafka.handlers.admin.outcomes import AdminRefusal
from raftlog.errors import InvalidArgument
from raftlog.setting_bounds import bounds_of
from raftlog.topic_config import UNBOUNDED, TopicConfig, kafka_name

_B, _S, _I, _L, _D, _LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)
_UNBOUNDED: Final = frozenset(map(kafka_name, UNBOUNDED))
_HIGHEST: Final[Mapping[str, int]] = {
    kafka_name(field): int(high)
    for field, (_, high) in bounds_of(TopicConfig).items()
    if field.endswith("_ms") or field == "flush_messages"
}
"""Highest value of each setting; a higher number from a Kafka client means the highest one, or no bound."""
_LONG_MAX_UNBOUNDED: Final = frozenset(
    ("flush.ms", "max.compaction.lag.ms", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms")
)
_FLUSH_MESSAGES: Final = "flush.messages"

_PRODUCER: Final = "Batches are stored as producers compressed them; set compression.type in the producer."
_TIERED: Final = "There is no tiered storage; retention.ms and retention.bytes bound the local log."
_THROTTLED: Final = "Limit replication with the cluster's setting catch.up.bytes.per.s."
_TIMESTAMPS: Final = "Set message.timestamp.before.max.ms and message.timestamp.after.max.ms, which replace it."

TOPIC_NAMES: Final[Mapping[str, ConfigName]] = index_by_name(
    (
        # served
        ConfigName(
            "cleanup.policy",
            _LIST,
            "delete: old segments are deleted by age and size; compact: the newest record of each key is kept.",
            synonym="log.cleanup.policy",
        ),
        ConfigName(
            "delete.retention.ms",
            _L,
            "Time that a tombstone is kept after it was first compacted.",
            synonym="log.cleaner.delete.retention.ms",
        ),
        ConfigName(
            _FLUSH_MESSAGES,
            _L,
            "Records after which a sync is forced. Brokers always sync before they acknowledge.",
            synonym="log.flush.interval.messages",
        ),
        ConfigName(
            "flush.ms",
            _L,
            "Time after which records are synced. Brokers always sync before they acknowledge.",
            synonym="log.flush.interval.ms",
        ),
        ConfigName(
            "max.compaction.lag.ms",
            _L,
            "Age at which a record is compacted whatever the dirty ratio is.",
            synonym="log.cleaner.max.compaction.lag.ms",
        ),
        ConfigName("max.message.bytes", _I, "Largest record batch.", synonym="message.max.bytes"),
        ConfigName(
            "message.timestamp.after.max.ms",
            _L,
            "Largest distance of timestamps after the clock of the broker.",
            synonym="log.message.timestamp.after.max.ms",
        ),
        ConfigName(
            "message.timestamp.before.max.ms",
            _L,
            "Largest distance of timestamps before the clock of the broker.",
            synonym="log.message.timestamp.before.max.ms",
        ),
        ConfigName(
            "min.cleanable.dirty.ratio",
            _D,
            "Share of the closed segments not compacted yet at which compaction starts.",
            synonym="log.cleaner.min.cleanable.ratio",
        ),
        ConfigName(
            "min.compaction.lag.ms",
            _L,
            "Age before which a record is never compacted away.",
            synonym="log.cleaner.min.compaction.lag.ms",
        ),
        ConfigName(
            "min.insync.replicas",
            _I,
            "Replicas that must hold a record before acks=all is answered, where that is more than a majority.",
            synonym="min.insync.replicas",
        ),
        ConfigName(
            "producer.id.expiration.ms",
            _L,
            "Idle time after which the state of an idempotent producer expires.",
            synonym="producer.id.expiration.ms",
        ),
        ConfigName(
            "retention.bytes",
            _L,
            "Size of a partition above which policy delete removes its oldest segments; -1: no limit.",
            synonym="log.retention.bytes",
        ),
        ConfigName(
            "retention.ms",
            _L,
            "Age of the newest record at which policy delete removes a segment; -1: no limit.",
            synonym="log.retention.ms",
        ),
        ConfigName("segment.bytes", _I, "Size of a segment.", synonym="log.segment.bytes"),
        ConfigName("segment.index.bytes", _I, "Size of a segment's index.", synonym="log.index.size.max.bytes"),
        ConfigName("segment.ms", _L, "Age at which a segment is closed.", synonym="log.roll.ms"),
        # fixed
        ConfigName("compression.gzip.level", _I, "Level of compression by brokers.", "-1", _PRODUCER),
        ConfigName("compression.lz4.level", _I, "Level of compression by brokers.", "9", _PRODUCER),
        ConfigName("compression.zstd.level", _I, "Level of compression by brokers.", "3", _PRODUCER),
        ConfigName(
            "compression.type",
            _S,
            "Compression of stored batches: as the producer chose.",
            "producer",
            _PRODUCER,
            synonym="compression.type",
        ),
        ConfigName(
            "file.delete.delay.ms",
            _L,
            "Time between the removal of a segment and that of its files: none.",
            "0",
            "Files are deleted with their segment.",
            is_one_of("60000"),
            "log.segment.delete.delay.ms",
        ),
        ConfigName(
            "follower.replication.throttled.replicas", _LIST, "Throttled replicas of followers.", "", _THROTTLED
        ),
        ConfigName("leader.replication.throttled.replicas", _LIST, "Throttled replicas of leaders.", "", _THROTTLED),
        ConfigName(
            "index.interval.bytes",
            _I,
            "Distance of index entries; every batch has an entry.",
            "0",
            "Every batch has an entry in the index.",
            is_one_of("4096"),
            "log.index.interval.bytes",
        ),
        ConfigName("local.retention.bytes", _L, "Local size with tiered storage.", "-2", _TIERED),
        ConfigName("local.retention.ms", _L, "Local age with tiered storage.", "-2", _TIERED),
        ConfigName("remote.storage.enable", _B, "Whether segments are tiered.", "false", _TIERED),
        ConfigName("remote.log.copy.disable", _B, "Whether tiering is stopped.", "false", _TIERED),
        ConfigName("remote.log.delete.on.disable", _B, "Whether tiered segments are deleted.", "false", _TIERED),
        ConfigName(
            "message.downconversion.enable",
            _B,
            "Whether batches are converted for clients older than Kafka 0.11, which are not served.",
            "false",
            "",
            is_one_of("true"),
            "log.message.downconversion.enable",
        ),
        ConfigName(
            "message.format.version",
            _S,
            "Format of stored batches: version 2, since Kafka 0.11.",
            "3.0-IV1",
            "Batches are always stored in format version 2.",
            lambda value: value[:2] in ("1.", "2.", "3.", "4."),
            "log.message.format.version",
        ),
        ConfigName(
            "message.timestamp.difference.max.ms",
            _L,
            "Largest distance of timestamps from the clock of the broker.",
            str(LONG_MAX),
            _TIMESTAMPS,
            synonym="log.message.timestamp.difference.max.ms",
        ),
        ConfigName(
            "message.timestamp.type",
            _S,
            "Timestamps of records: those of the producer.",
            "CreateTime",
            "LogAppendTime would change every batch; set timestamps in the producer.",
            synonym="log.message.timestamp.type",
        ),
        ConfigName(
            "preallocate",
            _B,
            "Whether files of segments are preallocated.",
            "false",
            "Segments grow as they are written; the journal is preallocated.",
            synonym="log.preallocate",
        ),
        ConfigName(
            "segment.jitter.ms",
            _L,
            "Random part of segment.ms: none.",
            "0",
            "Partitions close their segments independently of each other.",
            synonym="log.roll.jitter.ms",
        ),
        ConfigName(
            "unclean.leader.election.enable",
            _B,
            "Whether a replica without all acknowledged records may become leader: never.",
            "false",
            "Such an election loses acknowledged records; `raftlog partition recover` recovers a lost majority.",
            synonym="unclean.leader.election.enable",
        ),
    )
)


def topic_name(name: str) -> ConfigName:
    """Return a topic configuration. Raises `AdminRefusal` for an unknown name."""
    found = TOPIC_NAMES.get(name)
    if found is None:
        raise unknown_name(name, "topic", TOPIC_NAMES)
    return found


def to_kafka(name: str, value: str) -> str:
    """Return a setting's value in Kafka's format."""
    if name in _LONG_MAX_UNBOUNDED and value == "-1":
        return str(LONG_MAX)
    if name == _FLUSH_MESSAGES and int(value) == _HIGHEST[name]:
        return str(LONG_MAX)
    return value


def from_kafka(name: str, value: str) -> str:
    """Return a value in Kafka's format as the text of raftlog's setting; an invalid value is returned unchanged."""
    value = value.strip()
    if name == "cleanup.policy":
        return ",".join(list_of(value))
    highest = _HIGHEST.get(name)
    try:
        is_beyond = highest is not None and highest < int(value) <= LONG_MAX
    except ValueError:
        return value
    if not is_beyond:
        return value
    return "-1" if name in _UNBOUNDED else str(highest)


def parse_overrides(values: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Return raftlog's settings for Kafka's topic configurations; names with a fixed value are only checked.

    Raises `AdminRefusal` for unknown names, for null, for a name given twice, and for values that cannot be served."""
    overrides: dict[str, str] = {}
    seen: set[str] = set()
    for name, value in values:
        known = topic_name(name)
        if value is None:
            raise AdminRefusal(ErrorCode.INVALID_CONFIG, f"{name} has no value; leave it out to use the default")
        if name in seen:
            raise AdminRefusal(ErrorCode.INVALID_REQUEST, f"{name} is given twice; set it once")
        seen.add(name)
        if known.is_served:
            overrides[name] = from_kafka(name, value)
        else:
            known.check_fixed(value)
    try:
        TopicConfig().override(overrides)
    except InvalidArgument as error:
        raise AdminRefusal(ErrorCode.INVALID_CONFIG, str(error)) from None
    return overrides
