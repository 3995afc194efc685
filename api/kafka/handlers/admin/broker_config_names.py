"""Broker configurations: Kafka's names that tools read, with their values in raftlog.

Only the settings of the cluster can be altered while brokers run. Pure; called by the handlers of configurations."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple

from raftlog.api.kafka.fetch_sessions import PARTITIONS_MAX, SESSIONS_MAX
from raftlog.api.kafka.handlers.admin.config_catalogue import ConfigName, ConfigSource, ConfigType, index_by_name
from raftlog.api.kafka.handlers.admin.topic_config_names import TOPIC_NAMES, to_kafka
from raftlog.api.kafka.settings import DEFAULTS, KafkaSettings
from raftlog.partitions.settings import BrokerSettings
from raftlog.topic_config import TopicConfig, kafka_name
from raftlog.values.cluster import SettingDescription, SettingValue

INTER_BROKER_VERSION: Final = "3.9-IV0"
"""Kafka release whose configuration names this module lists."""
REPLICATION_FACTOR_MAX: Final = 3
"""Default replication factor; lower in a cluster with fewer brokers."""
_MINUTE_MS: Final = 60_000

_B, _S, _I, _L, _D, _LIST, _CLASS = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
    ConfigType.CLASS,
)


class BrokerFacts(NamedTuple):
    """Values of one broker from which its configurations are computed."""

    settings: BrokerSettings
    kafka: KafkaSettings
    node_id: int
    broker_count: int
    listener: str
    address: str
    """HOST:PORT that this listener advertises; empty while it is unknown."""


class DescribedConfig(NamedTuple):
    """Configuration with its value. `default` is the value that it has without a change."""

    known: ConfigName
    value: str | None
    source: ConfigSource
    default: str | None = None


_Value = Callable[[BrokerFacts], object]


class _BrokerName(NamedTuple):
    """Name and source of a broker configuration; `field`: field of the settings with its value, if a flag sets it."""

    known: ConfigName
    value: _Value
    field: str | None = None


def _constant(name: str, kind: ConfigType, value: str, doc: str) -> _BrokerName:
    """Return a configuration with the same value on every broker."""
    return _BrokerName(ConfigName(name, kind, doc, value, "It is the same on every broker."), lambda facts: value)


def _formula(name: str, kind: ConfigType, value: _Value, doc: str, reason: str) -> _BrokerName:
    """Return a configuration whose value is computed from the facts about a broker."""
    return _BrokerName(ConfigName(name, kind, doc, "", reason), value)


def _flag(
    name: str,
    kind: ConfigType,
    field: str,
    doc: str,
    convert: Callable[[Any], object] = lambda value: value,
    flag: str | None = None,
) -> _BrokerName:
    """Return a configuration whose value is a field of the settings, set by a flag of `raftlog serve`."""
    shown = flag or "--" + field.replace("_", "-")
    known = ConfigName(name, kind, doc, "", f"Start the broker with `raftlog serve {shown}`.")
    return _BrokerName(known, lambda facts: convert(getattr(facts.settings, field)), field)


def _topic_default(name: str, of_topic: str) -> _BrokerName:
    """Return the broker configuration that is the default of the topic configuration `of_topic`."""
    topic = TOPIC_NAMES[of_topic]
    reason = f"Start brokers with `raftlog serve --topic-config {of_topic}=…`, or set {of_topic} on the topic."

    def value(facts: BrokerFacts) -> object:
        """Return the broker's default of the topic setting, as Kafka writes it."""
        return to_kafka(of_topic, facts.settings.topic_config.as_strings()[of_topic])

    return _BrokerName(ConfigName(name, topic.type, f"Default for topics. {topic.doc}", "", reason), value)


def _to_minutes(milliseconds: int) -> int:
    """Convert milliseconds to whole minutes."""
    return milliseconds // _MINUTE_MS


_START: Final = "It is given when the broker starts; see `raftlog serve --help`."
_KAFKA: Final = "It is given when the listener starts; see `raftlog serve --help`."
_NAMES: Final = (
    # identity and listeners
    _formula("broker.id", _I, lambda facts: facts.node_id, "Number of the broker.", "A data directory belongs to it."),
    _formula("node.id", _I, lambda facts: facts.node_id, "Number of the broker.", "A data directory belongs to it."),
    _flag("broker.rack", _S, "rack", "Location of the broker, shown to operators.", lambda rack: rack or None),
    _formula(
        "advertised.listeners",
        _S,
        lambda facts: f"{facts.listener}://{facts.address}" if facts.address else None,
        "Address that clients of this listener are given.",
        _KAFKA,
    ),
    _formula(
        "listeners",
        _S,
        lambda facts: f"{facts.listener}://{facts.address}" if facts.address else None,
        "Address of this listener.",
        _KAFKA,
    ),
    _constant("process.roles", _LIST, "broker,controller", "Every broker can host the controller."),
    _constant("inter.broker.protocol.version", _S, INTER_BROKER_VERSION, "Release whose clients and tools are served."),
    _constant("authorizer.class.name", _CLASS, "", "Class that checks permissions: none."),
    _constant("sasl.enabled.mechanisms", _LIST, "", "Mechanisms of authentication: none."),
    # topics and their placement
    _flag("num.partitions", _I, "default_partitions", "Partitions of a topic that is created without a number."),
    _formula(
        "default.replication.factor",
        _I,
        lambda facts: max(1, min(REPLICATION_FACTOR_MAX, facts.broker_count)),
        "Replicas of a topic that is created without a number: 3, or as many as there are brokers.",
        "Give the replication factor when the topic is created.",
    ),
    _formula(
        "auto.create.topics.enable",
        _B,
        lambda facts: facts.kafka.auto_create_topics,
        "Whether a topic is created when a client asks for its metadata.",
        _KAFKA,
    ),
    _constant("delete.topic.enable", _B, "true", "Whether topics can be deleted."),
    _constant("auto.leader.rebalance.enable", _B, "true", "Leaders are balanced by the setting leaders.balance."),
    _constant("controlled.shutdown.enable", _B, "true", "A broker transfers its leaderships before it stops."),
    _constant("unclean.leader.election.enable", _B, "false", "No leader is elected without all acknowledged records."),
    _constant("compression.type", _S, "producer", "Batches are stored as producers compressed them."),
    _constant("leader.replication.throttled.rate", _L, str((1 << 63) - 1), "See the setting catch.up.bytes.per.s."),
    _constant("follower.replication.throttled.rate", _L, str((1 << 63) - 1), "See the setting catch.up.bytes.per.s."),
    _constant("replica.alter.log.dirs.io.max.bytes.per.second", _L, str((1 << 63) - 1), "There is one log directory."),
    _flag("replica.lag.time.max.ms", _L, "replica_lag_time_max_ms", "Lag up to which a replica counts as in sync."),
    # logs
    _flag("log.dirs", _S, "data_dir", "Directory of all data."),
    _flag("log.dir", _S, "data_dir", "Directory of all data."),
    _topic_default("log.cleanup.policy", "cleanup.policy"),
    _topic_default("log.cleaner.delete.retention.ms", "delete.retention.ms"),
    _topic_default("log.flush.interval.messages", "flush.messages"),
    _topic_default("log.flush.interval.ms", "flush.ms"),
    _topic_default("log.cleaner.max.compaction.lag.ms", "max.compaction.lag.ms"),
    _topic_default("log.message.timestamp.after.max.ms", "message.timestamp.after.max.ms"),
    _topic_default("log.message.timestamp.before.max.ms", "message.timestamp.before.max.ms"),
    _topic_default("message.max.bytes", "max.message.bytes"),
    _topic_default("log.cleaner.min.cleanable.ratio", "min.cleanable.dirty.ratio"),
    _topic_default("log.cleaner.min.compaction.lag.ms", "min.compaction.lag.ms"),
    _topic_default("min.insync.replicas", "min.insync.replicas"),
    _topic_default("producer.id.expiration.ms", "producer.id.expiration.ms"),
    _topic_default("log.retention.bytes", "retention.bytes"),
    _topic_default("log.retention.ms", "retention.ms"),
    _topic_default("log.segment.bytes", "segment.bytes"),
    _topic_default("log.index.size.max.bytes", "segment.index.bytes"),
    _topic_default("log.roll.ms", "segment.ms"),
    _formula(
        "log.retention.hours",
        _I,
        lambda facts: _to_hours(facts.settings.topic_config.retention_ms),
        "The same in hours; log.retention.ms counts.",
        "Set log.retention.ms.",
    ),
    _formula(
        "log.retention.minutes",
        _I,
        lambda facts: None,
        "The same in minutes; log.retention.ms counts.",
        "Set log.retention.ms.",
    ),
    _flag(
        "log.retention.check.interval.ms",
        _L,
        "retention_interval_s",
        "Interval of retention and compaction checks.",
        lambda seconds: int(seconds * 1000),
    ),
    _constant("log.cleaner.enable", _B, "true", "Whether compacted topics are compacted."),
    _constant("log.index.interval.bytes", _I, "0", "Every batch has an entry in the index."),
    _constant("log.message.downconversion.enable", _B, "false", "Clients older than Kafka 0.11 are not served."),
    _constant("log.message.format.version", _S, "3.0-IV1", "Batches are stored in format version 2."),
    _constant("log.message.timestamp.type", _S, "CreateTime", "Timestamps are those of producers."),
    _constant("log.preallocate", _B, "false", "Segments grow as they are written."),
    _constant("log.roll.jitter.ms", _L, "0", "Random part of log.roll.ms: none."),
    _constant("log.segment.delete.delay.ms", _L, "0", "Files are deleted with their segment."),
    _constant("remote.log.storage.system.enable", _B, "false", "There is no tiered storage."),
    # connections and requests
    _formula(
        "connections.max.idle.ms",
        _L,
        lambda facts: facts.kafka.idle_ms_max,
        "Time without a request after which a connection is closed.",
        _KAFKA,
    ),
    _formula("max.connections", _I, lambda facts: facts.kafka.connections_max, "Connections of this listener.", _KAFKA),
    _formula("socket.request.max.bytes", _I, lambda facts: facts.kafka.request_bytes_max, "Largest request.", _KAFKA),
    _constant(
        "max.incremental.fetch.session.cache.slots",
        _I,
        str(SESSIONS_MAX),
        f"Fetch sessions of a listener; all together have up to {PARTITIONS_MAX:,} partitions.",
    ),
    _flag("fetch.max.bytes", _I, "fetch_bytes_max", "Largest answer to a fetch."),
    _constant("num.network.threads", _I, "1", "One event loop serves all connections."),
    _constant("num.io.threads", _I, "1", "One event loop serves all requests."),
    _constant("num.replica.fetchers", _I, "1", "Leaders send to their followers."),
    _flag("background.threads", _I, "sync_threads", "Concurrent syncs."),
    # groups and offsets
    _flag(
        "group.min.session.timeout.ms", _I, "group_min_session_timeout_ms", "Shortest session timeout of group members."
    ),
    _flag(
        "group.max.session.timeout.ms", _I, "group_max_session_timeout_ms", "Longest session timeout of group members."
    ),
    _flag(
        "group.initial.rebalance.delay.ms",
        _I,
        "group_initial_rebalance_delay_ms",
        "Wait of a first group member for others.",
    ),
    _flag("group.max.size", _I, "group_members_max", "Most members of one consumer group."),
    _constant("group.coordinator.rebalance.protocols", _LIST, "classic", "Protocols of consumer groups."),
    _flag("offsets.topic.num.partitions", _I, "offsets_partitions", "Partitions of __consumer_offsets at creation."),
    _formula(
        "offsets.topic.replication.factor",
        _I,
        lambda facts: max(1, min(REPLICATION_FACTOR_MAX, facts.broker_count)),
        "Replicas of __consumer_offsets.",
        _START,
    ),
    _flag(
        "offsets.retention.minutes",
        _I,
        "offsets_retention_ms",
        "Time after which offsets of unused consumer groups expire.",
        _to_minutes,
    ),
    _flag(
        "transaction.state.log.num.partitions",
        _I,
        "transaction_partitions",
        "Partitions of __transaction_state at creation.",
    ),
    _formula(
        "transaction.state.log.replication.factor",
        _I,
        lambda facts: max(1, min(REPLICATION_FACTOR_MAX, facts.broker_count)),
        "Replicas of __transaction_state.",
        _START,
    ),
    _flag("transaction.max.timeout.ms", _I, "transaction_max_timeout_ms", "Longest transaction timeout of producers."),
    _flag(
        "transactional.id.expiration.ms",
        _I,
        "transactional_id_expiration_ms",
        "Time after which unused transactional ids expire.",
    ),
    _constant("offsets.commit.required.acks", _I, "-1", "Commits are answered when a majority has synced them."),
    _constant("offsets.topic.compression.codec", _I, "0", "Commits are stored uncompressed."),
)


def _to_hours(retention_ms: int | None) -> int:
    """Convert milliseconds to whole hours; None, without a bound, is -1."""
    return -1 if retention_ms is None else retention_ms // (60 * _MINUTE_MS)


_BY_NAME: Final = {each.known.name: each for each in _NAMES}
BROKER_NAMES: Final[Mapping[str, ConfigName]] = index_by_name(each.known for each in _NAMES)
_DEFAULTS: Final = {each.name: each.default for each in fields(BrokerSettings)}
_TOPIC_DEFAULTS: Final = TopicConfig().as_strings()
_KAFKA_FIELDS: Final = {
    "auto.create.topics.enable": "auto_create_topics",
    "connections.max.idle.ms": "idle_ms_max",
    "max.connections": "connections_max",
    "socket.request.max.bytes": "request_bytes_max",
}
_TYPES: Final = {"string": _S, "integer": _L, "boolean": _B}


def describe_broker_configs(facts: BrokerFacts) -> list[DescribedConfig]:
    """Return the configurations of a broker, sorted by name; all are read-only."""
    return [_describe(_BY_NAME[name], facts) for name in BROKER_NAMES]


def _describe(each: _BrokerName, facts: BrokerFacts) -> DescribedConfig:
    """Return a broker setting with its value, and whether it differs from the default."""
    value = text_of(each.value(facts))
    source = ConfigSource.STATIC_BROKER if _is_changed(each, facts) else ConfigSource.DEFAULT
    return DescribedConfig(each.known._replace(fixed=value or ""), value, source)


def _is_changed(config_name: _BrokerName, facts: BrokerFacts) -> bool:
    """Return whether a flag changed the value from its default."""
    if config_name.field is not None:
        return bool(getattr(facts.settings, config_name.field) != _DEFAULTS[config_name.field])
    kafka_field = _KAFKA_FIELDS.get(config_name.known.name)
    if kafka_field is not None:
        return bool(getattr(facts.kafka, kafka_field) != getattr(DEFAULTS, kafka_field))
    of_topic = _DEFAULTS_OF_TOPICS.get(config_name.known.name)
    return of_topic is not None and facts.settings.topic_config.as_strings()[of_topic] != _TOPIC_DEFAULTS[of_topic]


_DEFAULTS_OF_TOPICS: Final = {
    each.synonym: each.name for each in TOPIC_NAMES.values() if each.is_served and each.synonym is not None
}
"""Names of topic configurations by that of the broker's default."""


def describe_cluster_configs(
    values: Mapping[str, SettingValue],
    properties: Mapping[str, SettingDescription],
    changed: Collection[str],
) -> list[DescribedConfig]:
    """Return the settings of the cluster as configurations that can be altered."""
    return [
        DescribedConfig(
            ConfigName(name, _TYPES[about.type], f"{about.description} Allowed: {about.allowed}."),
            text_of(values[name]),
            ConfigSource.DEFAULT_BROKER if name in changed else ConfigSource.DEFAULT,
            text_of(about.default),
        )
        for name, about in properties.items()
    ]


def describe_topic_configs(
    config: Mapping[str, str], overrides: Mapping[str, str], defaults: TopicConfig
) -> list[DescribedConfig]:
    """Return all configurations of a topic, sorted by name. `defaults`: this broker's defaults for topics."""
    here = defaults.as_strings()
    described = []
    for name, known in TOPIC_NAMES.items():
        if known.fixed is not None:
            described.append(DescribedConfig(known, known.fixed, ConfigSource.DEFAULT, known.fixed))
            continue
        default = ConfigSource.DEFAULT if here[name] == _TOPIC_DEFAULTS[name] else ConfigSource.STATIC_BROKER
        source = ConfigSource.TOPIC if name in overrides else default
        described.append(DescribedConfig(known, to_kafka(name, config[name]), source, to_kafka(name, here[name])))
    return described


def default_source(described: DescribedConfig, defaults: TopicConfig) -> ConfigSource:
    """Return the source of the default value of a topic's configuration: a flag of the broker, or raftlog itself."""
    name = described.known.name
    is_flag = described.known.is_served and defaults.as_strings()[name] != _TOPIC_DEFAULTS[name]
    return ConfigSource.STATIC_BROKER if is_flag else ConfigSource.DEFAULT


def text_of(value: object) -> str | None:
    """Return a value as text in Kafka's format; None for None."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


assert set(_KAFKA_FIELDS) <= set(BROKER_NAMES)
assert set(map(kafka_name, _TOPIC_DEFAULTS)) == {each.name for each in TOPIC_NAMES.values() if each.is_served}
