"""/v1/security/acls: entries of access control, with the field names of the REST Proxy."""

from enum import IntEnum
from typing import Any, TypeVar

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST
from raftlog.api.http.openapi.parts import Json, string
from raftlog.api.http.requests import AclsBody, NewAcl
from raftlog.api.http.server.answers import no_content, value_answer
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import HttpEndpoint, in_query
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import ALTER_CLUSTER, DESCRIBE_CLUSTER
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import Target, flag
from raftlog.security.permissions import Acl, AclEffect, AclFilter, AclOperation, AclResourceType, PatternType
from raftlog.values.security import AclDescription

_ACLS = "/v1/security/acls"
E = TypeVar("E", bound=IntEnum)


def _choice(name: str, kind: type[IntEnum], text: str) -> Json:
    """Return the declaration of a query parameter whose values are the names of an enum's members."""
    return in_query(name, string(enum=[each.name for each in kind]), text)


_FILTER = (
    _choice("resource_type", AclResourceType, "Only of this type of resource."),
    in_query("resource_name", string(), "Only with this name of the resource or pattern."),
    _choice("pattern_type", PatternType, "Only patterns of this type; MATCH: those that apply to `resource_name`."),
    in_query("principal", string(), "Only of this principal, such as `User:alice`."),
    in_query("host", string(), "Only of this host."),
    _choice("operation", AclOperation, "Only of this operation."),
    _choice("permission", AclEffect, "Only ALLOW or DENY."),
)
_FILTER_NAMES = tuple(each["name"] for each in _FILTER)


class AclHandlers(Handlers):
    """Handlers for entries of access control."""

    @HttpEndpoint(f"GET {_ACLS}", list[AclDescription], (*_FILTER, "timeout"), permissions=DESCRIBE_CLUSTER)
    async def acls(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the entries of access control that the parameters select."""
        found = await self._broker.security.acls.describe(_parse_filter(target), deadline=target.deadline())
        return value_answer(list(map(describe_acl, found)))

    @HttpEndpoint(f"POST {_ACLS}", body=AclsBody, permissions=ALTER_CLUSTER)
    async def create_acls(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Create entries of access control; existing ones stay.

        The body is `{"acls": [{"resource_type", "resource_name", "pattern_type"?, "principal", "host"?, "operation",
        "permission"}]}`."""
        deadline = target.deadline()
        body = await self._bodies.read(request, AclsBody)
        await self._broker.security.acls.create(
            list(map(_parse_acl, body.acls)), caller=caller_of(request), deadline=deadline
        )
        return no_content()

    @HttpEndpoint(
        f"DELETE {_ACLS}",
        list[AclDescription],
        (*_FILTER, "dry_run", "timeout"),
        text="Deleted entries.",
        permissions=ALTER_CLUSTER,
    )
    async def delete_acls(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Delete the ACL entries that the parameters select; at least one parameter is required."""
        if not any(name in target.query for name in _FILTER_NAMES):
            raise HttpProblem(BAD_REQUEST, f"name the entries to delete by one of {', '.join(_FILTER_NAMES)}")
        [found] = await self._broker.security.acls.delete(
            [_parse_filter(target)],
            caller=caller_of(request),
            deadline=target.deadline(),
            dry_run=flag(target, "dry_run"),
        )
        return value_answer(list(map(describe_acl, found)))


def _parse_filter(target: Target) -> AclFilter:
    """Return the ACL filter of the query. Raises `HttpProblem` for an unknown name."""
    query = target.query
    return AclFilter(
        _parse_name(AclResourceType, "resource_type", query.get("resource_type", "ANY")),
        _parse_name(PatternType, "pattern_type", query.get("pattern_type", "ANY")),
        query.get("resource_name"),
        query.get("principal"),
        query.get("host"),
        _parse_name(AclOperation, "operation", query.get("operation", "ANY")),
        _parse_name(AclEffect, "permission", query.get("permission", "ANY")),
    )


def _parse_name(kind: type[E], field: str, name: str) -> E:
    """Return the value of a name. Raises `HttpProblem` 400."""
    try:
        return kind[name]
    except KeyError:
        names = ", ".join(each.name for each in kind)
        raise HttpProblem(BAD_REQUEST, f"{field} cannot be {name!r:.60}; it can be {names}") from None


def _parse_acl(new: NewAcl) -> Acl:
    """Return the ACL of a body."""
    return Acl(
        AclResourceType[new.resource_type],
        PatternType[new.pattern_type],
        new.resource_name,
        new.principal,
        new.host,
        AclOperation[new.operation],
        AclEffect[new.permission],
    )


def describe_acl(acl: Acl) -> AclDescription:
    """Return an ACL with the names of its enumerated fields."""
    names: Any = [each.name for each in (acl.resource_type, acl.pattern_type, acl.operation, acl.effect)]
    type_, pattern, operation, effect = names
    return AclDescription(type_, acl.resource_name, pattern, acl.principal, acl.host, operation, effect)
