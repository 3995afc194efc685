"""Handlers of AlterConfigs and IncrementalAlterConfigs; the changes of each resource are all or nothing.

    topic             settings of the topic; names with a fixed value accept only this value
    broker, no name   settings of the cluster (docs/SETTINGS.md); other settings are flags of `raftlog serve`
    broker            accepts only the present values: settings of one broker cannot be changed
    broker logger     levels, until the process ends

AlterConfigs replaces all values of a resource. An element that is appended to or subtracted from a list is applied to
the value at the time of the request; a concurrent change of the same list may be overwritten."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from raftlog import errors
from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.admin import loggers
from raftlog.api.kafka.handlers.admin.broker_config_names import DescribedConfig
from raftlog.api.kafka.handlers.admin.config_catalogue import ConfigSource, ConfigType, is_same, list_of, unknown_name
from raftlog.api.kafka.handlers.admin.configs import ANY_BROKER, ConfigReader, ResourceType
from raftlog.api.kafka.handlers.admin.outcomes import (
    CONTROLLER,
    AdminRefusal,
    Meanings,
    Outcome,
    attempt,
    run_in_parallel,
)
from raftlog.api.kafka.handlers.admin.topic_config_names import from_kafka
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.security.permissions import AclOperation

_MEANINGS: Final[Meanings] = MappingProxyType({**CONTROLLER, errors.InvalidArgument: ErrorCode.INVALID_CONFIG})


class _Operation(IntEnum):
    """Operations of IncrementalAlterConfigs, with Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS: Final = frozenset(map(int, _Operation))


class _Change(NamedTuple):
    """Requested change of one configuration: Kafka's name, operation (set, delete, …), new value."""

    name: str
    operation: int
    value: str | None


class ConfigChanges:
    """Handlers of AlterConfigs and IncrementalAlterConfigs."""

    def __init__(self, context: KafkaContext) -> None:
        self._broker, self._reader = context.broker, ConfigReader(context)

    def apis(self) -> list[KafkaApi]:
        """Return the APIs that this class serves."""
        return [
            KafkaApi(ApiKey.ALTER_CONFIGS, (0, 2), self.replace),
            KafkaApi(ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1), self.change),
        ]

    async def replace(self, request: KafkaRequest) -> Any:
        """Handle AlterConfigs: replace all configurations of each resource."""
        return await self._answer(request, is_whole=True)

    async def change(self, request: KafkaRequest) -> Any:
        """Handle IncrementalAlterConfigs: change some configurations of each resource."""
        return await self._answer(request, is_whole=False)

    async def _answer(self, request: KafkaRequest, *, is_whole: bool) -> Any:
        """Change the named configurations of each resource; with `is_whole`, reset all others to their defaults."""
        message, answer = request.message, answer_class(request.key)
        counts = Counter((each.resource_type, each.resource_name) for each in message.resources)
        deadline = deadline_in(NO_DEADLINE_MS)

        async def change_resource(resource: Any) -> Any:
            """Change the settings of one resource; return its result."""
            kind, name = resource.resource_type, resource.resource_name
            if counts[kind, name] > 1:
                outcome = Outcome(ErrorCode.INVALID_REQUEST, "The request names this resource twice; name it once")
            else:
                changes = [
                    _Change(each.name, _Operation.SET if is_whole else each.config_operation, each.value)
                    for each in resource.configs
                ]
                work = self._alter(request, kind, name, changes, is_whole, deadline)
                outcome = await attempt(work, _MEANINGS)
            return answer.AlterConfigsResourceResponse(
                error_code=outcome.code, error_message=outcome.message, resource_type=kind, resource_name=name
            )

        return answer(responses=await run_in_parallel(message.resources, change_resource))

    async def _alter(
        self,
        request: KafkaRequest,
        kind: int,
        name: str,
        changes: Sequence[_Change],
        is_whole: bool,
        deadline: Deadline,
    ) -> None:
        """Check the changes of one resource and, unless `validate_only`, make them. Raises `AdminRefusal`."""
        self._reader.authorize(request, AclOperation.ALTER_CONFIGS, kind, name)
        validate_only = request.message.validate_only
        _check_shape(changes)
        described = {each.known.name: each for each in await self._reader.read(kind, name, deadline)}
        if kind == ResourceType.BROKER_LOGGER:
            _alter_loggers({each.name: _logger_level(each) for each in changes}, validate_only)
            return
        wanted = _new_values(changes, described, "topic" if kind == ResourceType.TOPIC else "broker")
        if kind == ResourceType.BROKER and name != ANY_BROKER:
            _check_unchanged(wanted, described)
            return
        if is_whole:
            unset = (each.known.name for each in described.values() if _is_set(each))
            wanted = {**dict.fromkeys(unset), **wanted}
        if kind == ResourceType.TOPIC:
            texts = {key: None if value is None else from_kafka(key, value) for key, value in wanted.items()}
            await self._broker.alter_topic_config(name, texts, deadline=deadline, validate_only=validate_only)
        elif wanted:
            await self._broker.operations.cluster.alter_cluster_config(
                {key: value for key, value in wanted.items() if value is not None},
                [key for key, value in wanted.items() if value is None],
                dry_run=validate_only,
                deadline=deadline,
            )


def _check_shape(changes: Sequence[_Change]) -> None:
    """Raise `AdminRefusal` for a name given twice, an unknown operation, or a missing value."""
    twice = [name for name, count in Counter(each.name for each in changes).items() if count > 1]
    if twice:
        raise AdminRefusal(ErrorCode.INVALID_REQUEST, f"{', '.join(twice)} is given twice; change it once")
    for each in changes:
        if each.operation not in _OPERATIONS:
            raise AdminRefusal(
                ErrorCode.INVALID_REQUEST,
                f"{each.name}: operation {each.operation} is unknown; set is 0, delete 1, append 2, subtract 3",
            )
        if each.value is None and each.operation != _Operation.DELETE:
            raise AdminRefusal(ErrorCode.INVALID_REQUEST, f"{each.name} has no value; delete it to restore the default")


def _new_values(
    changes: Sequence[_Change], described: Mapping[str, DescribedConfig], kind: str
) -> dict[str, str | None]:
    """Return the new values of served names, None for the default. Raises `AdminRefusal` if a fixed value changes."""
    wanted: dict[str, str | None] = {}
    for change in changes:
        here = described.get(change.name)
        if here is None:
            raise unknown_name(change.name, kind, described)
        value = _new_value(change, here)
        if here.known.is_served:
            wanted[change.name] = value
        elif value is not None:
            here.known.check_fixed(value)
    return wanted


def _new_value(change: _Change, described: DescribedConfig) -> str | None:
    """Return the value after a change, None for the default.

    Raises `AdminRefusal` if the change appends to or subtracts from a value that is no list."""
    if change.operation == _Operation.DELETE or change.value is None:
        return None
    if change.operation == _Operation.SET:
        return change.value
    if described.known.type is not ConfigType.LIST:
        raise AdminRefusal(ErrorCode.INVALID_CONFIG, f"{change.name} is not a list; set it instead")
    present, given = list_of(described.value or ""), list_of(change.value)
    if change.operation == _Operation.APPEND:
        return ",".join(dict.fromkeys([*present, *given]))
    return ",".join(each for each in present if each not in given)


def _check_unchanged(wanted: Mapping[str, str | None], described: Mapping[str, DescribedConfig]) -> None:
    """Raise `AdminRefusal` if changes for one broker would change a setting of the cluster."""
    for name, value in wanted.items():
        here = described[name]
        is_kept = not _is_set(here) if value is None else is_same(here.known.type, value, here.value or "")
        if not is_kept:
            raise AdminRefusal(
                ErrorCode.INVALID_REQUEST,
                f"{name} is a setting of the whole cluster; alter it for all brokers (a resource with an empty name)",
            )


def _is_set(described: DescribedConfig) -> bool:
    """Return whether the value was set for this topic or for the cluster."""
    return described.known.is_served and described.source in (ConfigSource.TOPIC, ConfigSource.DEFAULT_BROKER)


def _logger_level(change: _Change) -> str | None:
    """Return the level that a change sets; None: the parent's. Raises `AdminRefusal` for APPEND and SUBTRACT."""
    if change.operation in (_Operation.APPEND, _Operation.SUBTRACT):
        raise AdminRefusal(ErrorCode.INVALID_REQUEST, f"{change.name} is the level of a logger, and not a list; set it")
    return change.value if change.operation == _Operation.SET else None


def _alter_loggers(levels: Mapping[str, str | None], validate_only: bool) -> None:
    """Set the levels of loggers if all are valid. Raises `AdminRefusal`."""
    for name, level in levels.items():
        loggers.check(name, level)
    if not validate_only:
        for name, level in levels.items():
            loggers.set_level(name, level)
