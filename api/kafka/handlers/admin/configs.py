"""Handler of DescribeConfigs: configurations of topics, this broker and its loggers, with sources and synonyms."""

from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from typing import Any, Final

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.admin import loggers
from raftlog.api.kafka.handlers.admin.broker_config_names import (
    BrokerFacts,
    DescribedConfig,
    default_source,
    describe_broker_configs,
    describe_cluster_configs,
    describe_topic_configs,
)
from raftlog.api.kafka.handlers.admin.config_catalogue import ConfigName, ConfigSource, ConfigType
from raftlog.api.kafka.handlers.admin.outcomes import DONE, AdminRefusal, outcome_of, run_in_parallel
from raftlog.api.kafka.permissions import topic_resource
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.errors import RaftlogError, Unavailable
from raftlog.partitions.addresses import join_host_port
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.security.permissions import CLUSTER, AclOperation
from raftlog.topic_config import TopicConfig


class ResourceType(IntEnum):
    """Types of resources with configurations, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


_CURRENT_MS: Final = 1_000
"""Maximum wait for the controller's answer; after it, the configurations in this broker's own copy are returned."""
ANY_BROKER: Final = ""
"""Resource name of the settings that all brokers share."""


class ConfigReader:
    """Reader of the configurations of a resource, for the handlers that describe and change them."""

    def __init__(self, context: KafkaContext) -> None:
        self._context = context

    @property
    def defaults(self) -> TopicConfig:
        """Defaults of topic configurations on this broker."""
        return self._context.broker.settings.topic_config

    def authorize(self, request: KafkaRequest, operation: AclOperation, kind: int, name: str) -> None:
        """Raise `NotAuthorized` unless the caller may perform `operation` on the topic, or else on the cluster."""
        resource = topic_resource(name) if kind == ResourceType.TOPIC else CLUSTER
        self._context.broker.security.authorizer.authorize(request.caller, operation, resource)

    async def read(self, kind: int, name: str, deadline: Deadline) -> list[DescribedConfig]:
        """Return the configurations of a resource, by name.

        Raises `AdminRefusal` for resources of other kinds and of other brokers, and `UnknownTopic`."""
        if kind == ResourceType.TOPIC:
            topic = await self._context.broker.outline_topic(name, deadline=deadline)
            return describe_topic_configs(topic.config, topic.overrides, self.defaults)
        if kind == ResourceType.BROKER:
            self.check_broker(name, is_any_allowed=True)
            cluster = await self._read_cluster(deadline)
            return (
                cluster if name == ANY_BROKER else sorted([*describe_broker_configs(self._collect_facts()), *cluster])
            )
        if kind == ResourceType.BROKER_LOGGER:
            self.check_broker(name)
            return [
                DescribedConfig(
                    ConfigName(logger, ConfigType.STRING, "Lowest level that is logged."),
                    level,
                    ConfigSource.BROKER_LOGGER,
                )
                for logger, level in loggers.levels()
            ]
        raise AdminRefusal(
            ErrorCode.INVALID_REQUEST,
            f"Resources of type {kind} have no configurations here; use topics (2), brokers (4) or broker loggers (8)",
        )

    def check_broker(self, name: str, *, is_any_allowed: bool = False) -> None:
        """Raise `AdminRefusal` unless `name` is this broker's node id, or with `is_any_allowed` empty."""
        me = str(self._context.broker.node_id)
        if name != me and not (is_any_allowed and name == ANY_BROKER):
            raise AdminRefusal(
                ErrorCode.INVALID_REQUEST, f"This is broker {me}, and not {name!r:.40}; send the request to that broker"
            )

    async def _read_cluster(self, deadline: Deadline) -> list[DescribedConfig]:
        """Return the settings of the cluster."""
        config = await self._context.broker.operations.cluster.cluster_config(deadline=deadline)
        return describe_cluster_configs(config.values, config.properties, config.changed)

    def _collect_facts(self) -> BrokerFacts:
        """Return the facts of this broker from which its settings are described."""
        broker, listener = self._context.broker, self._context.listener
        return BrokerFacts(
            broker.settings,
            self._context.settings,
            broker.node_id,
            len(broker.broker_ids()),
            listener,
            next(
                (
                    join_host_port(each.host, each.port)
                    for each in broker.kafka_addresses(listener)
                    if each.node_id == broker.node_id
                ),
                "",
            ),
        )


class ConfigDescriptions:
    """Handler of DescribeConfigs."""

    def __init__(self, context: KafkaContext) -> None:
        self._reader, self._broker = ConfigReader(context), context.broker

    def apis(self) -> list[KafkaApi]:
        """Return the APIs that this class serves."""
        return [KafkaApi(ApiKey.DESCRIBE_CONFIGS, (1, 4), self.describe)]

    async def describe(self, request: KafkaRequest) -> Any:
        """Return the configurations of each resource; a resource that is named twice is returned once.

        They include every change that a broker has acknowledged, unless the controller does not answer in time."""
        message, answer = request.message, answer_class(request.key)
        deadline = deadline_in(NO_DEADLINE_MS)
        with suppress(Unavailable):
            await self._broker.operations.leadership.refresh(deadline=deadline_in(_CURRENT_MS))

        async def describe_resource(resource: Any) -> Any:
            """Return the row of a resource with its wanted settings, or with an error."""
            kind, name = resource.resource_type, resource.resource_name
            outcome, configs = DONE, []
            try:
                self._reader.authorize(request, AclOperation.DESCRIBE_CONFIGS, kind, name)
                configs = await self._reader.read(kind, name, deadline)
            except RaftlogError as error:
                outcome = outcome_of(error, {})
            wanted = frozenset(resource.configuration_keys or ())
            return answer.DescribeConfigsResult(
                error_code=outcome.code,
                error_message=outcome.message,
                resource_type=kind,
                resource_name=name,
                configs=[
                    build_entry(each, kind != ResourceType.TOPIC)
                    for each in configs
                    if not wanted or each.known.name in wanted
                ],
            )

        build_entry = self._entry_builder(answer.DescribeConfigsResult.DescribeConfigsResourceResult, message)
        resources = {(each.resource_type, each.resource_name): each for each in message.resources}
        return answer(results=await run_in_parallel(list(resources.values()), describe_resource))

    def _entry_builder(self, result: Any, message: Any) -> Callable[[DescribedConfig, bool], Any]:
        """Return a function that builds the answer's entry of a configuration.

        `has_read_only` is false for topics: as in Kafka, none of their configurations is read-only."""

        def build_entry(described: DescribedConfig, has_read_only: bool) -> Any:
            """Return the row of a setting, which is marked as read-only only if `has_read_only`."""
            known = described.known
            return result(
                name=known.name,
                value=described.value,
                read_only=has_read_only and not known.is_served,
                config_source=described.source,
                is_sensitive=False,
                synonyms=[
                    result.DescribeConfigsSynonym(name=name, value=value, source=source)
                    for name, value, source in (self._synonyms(described) if message.include_synonyms else ())
                ],
                config_type=known.type,
                documentation=known.doc if message.include_documentation else None,
            )

        return build_entry

    def _synonyms(self, described: DescribedConfig) -> list[tuple[str, str | None, ConfigSource]]:
        """Return the sources that have a value for this configuration, in order of precedence."""
        name, default = described.known.name, described.default
        if described.source not in (ConfigSource.TOPIC, ConfigSource.DEFAULT_BROKER):
            return [(described.known.synonym or name, described.value, described.source)]
        own = [(name, described.value, described.source)]
        if described.source is ConfigSource.DEFAULT_BROKER:
            return [*own, (name, default, ConfigSource.DEFAULT)]
        return [*own, (described.known.synonym or name, default, default_source(described, self._reader.defaults))]
