"""Handlers of DescribeClientQuotas and AlterClientQuotas."""

from collections.abc import Mapping
from typing import Any, Final

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.handlers.admin.outcomes import attempt, outcome_of, run_in_parallel
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.security.quotas import DEFAULT, EntityQuotas, QuotaFilter, QuotaMatch
from raftlog.security.permissions import CLUSTER, AclOperation

_MATCHES: Final = frozenset(map(int, QuotaMatch))


class QuotaRequests:
    """Handlers of requests about client quotas; null for a name is the default of its type."""

    def __init__(self, context: KafkaContext) -> None:
        self._quotas, self._authorizer = context.broker.security.quotas, context.broker.security.authorizer

    def apis(self) -> list[KafkaApi]:
        """Return the APIs that this class serves."""
        return [
            KafkaApi(ApiKey.DESCRIBE_CLIENT_QUOTAS, (0, 1), self.describe),
            KafkaApi(ApiKey.ALTER_CLIENT_QUOTAS, (0, 1), self.alter),
        ]

    async def describe(self, request: KafkaRequest) -> Any:
        """Return the entities that fit all components, with their quotas."""
        message, answer = request.message, answer_class(request.key)
        try:
            self._authorizer.authorize(request.caller, AclOperation.DESCRIBE_CONFIGS, CLUSTER)
            filters = [_parse_filter(each) for each in message.components]
            if len({each.type for each in filters}) < len(filters):
                raise InvalidArgument("the filter names an entity type twice")
            found = await self._quotas.describe(filters, is_strict=message.strict, deadline=deadline_in(NO_DEADLINE_MS))
        except RaftlogError as error:
            outcome = outcome_of(error)
            return answer(error_code=outcome.code, error_message=outcome.message, entries=None)
        return answer(entries=[_describe_entry(answer.EntryData, each) for each in found])

    async def alter(self, request: KafkaRequest) -> Any:
        """Set and remove quotas of entities; each entity has its own result."""
        message, answer = request.message, answer_class(request.key)
        deadline = deadline_in(NO_DEADLINE_MS)
        row = answer.EntryData

        async def alter_entry(entry: Any) -> Any:
            """Alter the quotas of one entity; return its result."""
            outcome = await attempt(self._alter(request, entry, deadline))
            entity = [
                row.EntityData(entity_type=each.entity_type, entity_name=each.entity_name) for each in entry.entity
            ]
            return row(error_code=outcome.code, error_message=outcome.message, entity=entity)

        return answer(entries=await run_in_parallel(message.entries, alter_entry))

    async def _alter(self, request: KafkaRequest, entry: Any, deadline: Deadline) -> None:
        """Alter the quotas of one entity. Raises `InvalidArgument` if an entity type or a quota is named twice."""
        self._authorizer.authorize(request.caller, AclOperation.ALTER_CONFIGS, CLUSTER)
        entity = {each.entity_type: _parse_name(each.entity_name) for each in entry.entity}
        changes: Mapping[str, float | None] = {each.key: None if each.remove else each.value for each in entry.ops}
        if len(entity) < len(entry.entity) or len(changes) < len(entry.ops):
            raise InvalidArgument("an entry names an entity type or a quota twice")
        await self._quotas.alter(
            entity, changes, caller=request.caller, deadline=deadline, dry_run=request.message.validate_only
        )


def _parse_name(name: str | None) -> str:
    """Return the name of an entity, empty for the default. Raises `InvalidArgument` for an empty name."""
    if name == DEFAULT:
        raise InvalidArgument("the name of an entity is empty; null stands for the default")
    return DEFAULT if name is None else name


def _parse_filter(component: Any) -> QuotaFilter:
    """Return the filter of one component of a request. Raises `InvalidArgument` for an unknown match type."""
    if component.match_type not in _MATCHES:
        raise InvalidArgument(f"match type {component.match_type} is unknown; exact is 0, default 1, any 2")
    match = QuotaMatch(component.match_type)
    name = _parse_name(component.match) if match is QuotaMatch.EXACT else DEFAULT
    return QuotaFilter(component.entity_type, match, name)


def _describe_entry(row: Any, found: EntityQuotas) -> Any:
    """Return the row of an entity with its quotas; the default entity has no name."""
    return row(
        entity=[
            row.EntityData(entity_type=type_, entity_name=None if name == DEFAULT else name)
            for type_, name in found.entity.items()
        ],
        values=[row.ValueData(key=key, value=value) for key, value in found.values.items()],
    )
