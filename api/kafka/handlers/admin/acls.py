"""Handlers of DescribeAcls, CreateAcls and DeleteAcls.

Without `--authorization acl` they answer SECURITY_DISABLED, as a Kafka broker without an authorizer does: MirrorMaker
expects it. Entries can still be administered by `raftlog acl` then."""

from collections.abc import Awaitable, Callable
from enum import IntEnum
from itertools import groupby
from typing import Any, Final, TypeVar

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.admin.outcomes import DONE, Outcome, attempt, outcome_of
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.security.acls import check_acl
from raftlog.security.permissions import (
    CLUSTER,
    Acl,
    AclEffect,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
)

FILTERS_MAX: Final = 100
"""Maximum number of filters in a DeleteAcls request; each filter scans all entries."""
_DISABLED: Final = Outcome(
    ErrorCode.SECURITY_DISABLED, "This broker checks no permissions; start it with --authorization acl"
)
Number = TypeVar("Number", bound=IntEnum)


class AclRequests:
    """Handlers of requests about entries of the access control list."""

    def __init__(self, context: KafkaContext) -> None:
        self._acls, self._authorizer = context.broker.security.acls, context.broker.security.authorizer

    def apis(self) -> list[KafkaApi]:
        """Return the APIs that this class serves."""
        return [
            KafkaApi(ApiKey.DESCRIBE_ACLS, (1, 3), self.describe),
            KafkaApi(ApiKey.CREATE_ACLS, (1, 3), self.create),
            KafkaApi(ApiKey.DELETE_ACLS, (1, 3), self.delete),
        ]

    async def _attempt(
        self, request: KafkaRequest, operation: AclOperation, work: Callable[[], Awaitable[Any]]
    ) -> Outcome:
        """Call `work` if the broker checks permissions and the caller has this one; return its outcome or the error."""
        if not self._authorizer.is_on:
            return _DISABLED
        try:
            self._authorizer.authorize(request.caller, operation, CLUSTER)
        except RaftlogError as error:
            return outcome_of(error)
        return await attempt(work())

    async def describe(self, request: KafkaRequest) -> Any:
        """Return the entries that a filter selects."""
        message, answer = request.message, answer_class(request.key)
        found: list[Acl] = []

        async def find() -> None:
            """Collect the ACLs that match the request's filter."""
            found.extend(await self._acls.describe(_parse_filter(message), deadline=deadline_in(NO_DEADLINE_MS)))

        outcome = await self._attempt(request, AclOperation.DESCRIBE, find)
        row = answer.DescribeAclsResource
        return answer(
            error_code=outcome.code,
            error_message=outcome.message,
            resources=[
                row(
                    resource_type=type_,
                    resource_name=name,
                    pattern_type=pattern,
                    acls=[
                        row.AclDescription(
                            principal=each.principal,
                            host=each.host,
                            operation=each.operation,
                            permission_type=each.effect,
                        )
                        for each in acls
                    ],
                )
                for (type_, pattern, name), acls in groupby(found, key=lambda acl: acl[:3])
            ],
        )

    async def create(self, request: KafkaRequest) -> Any:
        """Create the valid entries; return one result for each entry of the request."""
        answer = answer_class(request.key)
        valid: list[Acl] = []
        outcomes: list[Outcome | None] = []
        for each in request.message.creations:
            try:
                valid.append(check_acl(_parse_acl(each)))
                outcomes.append(None)
            except RaftlogError as error:
                outcomes.append(outcome_of(error))

        async def add() -> None:
            """Create the valid ACLs of the request together."""
            if valid:
                await self._acls.create(valid, caller=request.caller, deadline=deadline_in(NO_DEADLINE_MS))

        outcome = await self._attempt(request, AclOperation.ALTER, add)
        is_refused = outcome.code in (ErrorCode.SECURITY_DISABLED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        results = [outcome if invalid is None or is_refused else invalid for invalid in outcomes]
        return answer(
            results=[answer.AclCreationResult(error_code=each.code, error_message=each.message) for each in results]
        )

    async def delete(self, request: KafkaRequest) -> Any:
        """Delete the entries that the filters select."""
        answer = answer_class(request.key)
        filters, found = request.message.filters, list[list[Acl]]()

        async def remove() -> None:
            """Delete the ACLs that match any filter of the request, and collect them.

            Raises `InvalidArgument` for too many filters."""
            if len(filters) > FILTERS_MAX:
                raise InvalidArgument(f"{len(filters)} filters in one request are too many; {FILTERS_MAX} are possible")
            parsed = [_parse_filter(each) for each in filters]
            found.extend(await self._acls.delete(parsed, caller=request.caller, deadline=deadline_in(NO_DEADLINE_MS)))

        outcome = await self._attempt(request, AclOperation.ALTER, remove)
        row = answer.DeleteAclsFilterResult
        return answer(
            filter_results=[
                row(
                    error_code=outcome.code,
                    error_message=outcome.message,
                    matching_acls=[_deleted_row(row.DeleteAclsMatchingAcl, acl) for acl in acls],
                )
                for acls in (found if outcome.code is ErrorCode.NONE else [[] for _ in filters])
            ]
        )


def _deleted_row(row: Any, acl: Acl) -> Any:
    """Return the row of a deleted ACL."""
    return row(
        error_code=DONE.code,
        error_message=DONE.message,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.effect,
    )


def _number(kind: type[Number], number: int) -> Number:
    """Return the member of the enum that has Kafka's number. Raises `InvalidArgument` for an unknown number."""
    try:
        return kind(number)
    except ValueError:
        names = ", ".join(f"{each.value} ({each.name})" for each in kind)
        raise InvalidArgument(f"{number} is no {kind.__name__} here; there are {names}") from None


def _parse_acl(creation: Any) -> Acl:
    """Return the ACL that a request creates."""
    return Acl(
        _number(AclResourceType, creation.resource_type),
        _number(PatternType, creation.resource_pattern_type),
        creation.resource_name,
        creation.principal,
        creation.host,
        _number(AclOperation, creation.operation),
        _number(AclEffect, creation.permission_type),
    )


def _parse_filter(request: Any) -> AclFilter:
    """Return the ACL filter of a request."""
    return AclFilter(
        _number(AclResourceType, request.resource_type_filter),
        _number(PatternType, request.pattern_type_filter),
        request.resource_name_filter,
        request.principal_filter,
        request.host_filter,
        _number(AclOperation, request.operation),
        _number(AclEffect, request.permission_type),
    )
