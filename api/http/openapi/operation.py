"""Operations of the OpenAPI document, derived from endpoints.

parameters of the path   from the braces of the route
parameters of the query  by name
schemas                  of declared values (`derived`)
errors                   from the method and the body, unless the endpoint has its own
"""

import re
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, get_args

from raftlog.api.http.bounds import NAME
from raftlog.api.http.openapi.derived import schema_of
from raftlog.api.http.openapi.parts import BOOLEAN, NODE, OFFSET, Json, integer, string
from raftlog.api.http.server.endpoint import ETAG, HttpEndpoint, in_query, parameter
from raftlog.api.http.server.media import JSON_TYPE

_PATH: Mapping[str, tuple[Json, str]] = {
    "broker": (NODE, "Node id."),
    "cluster": (string(minLength=1, examples=["-"]), "The cluster's id, or `-`."),
    "consumer": (string(minLength=1), "Member id of the consumer."),
    "file": (string(minLength=1), "Name of a file of the console."),
    "folder": (string(minLength=1), "Folder of the console, such as `vendor`."),
    "group": (NAME, "Name of the group: no slash, no control characters."),
    "transactional_id": (NAME, "Transactional id: no slash, no control characters."),
    "instance": (NAME, "Name of the instance: no slash, no control characters."),
    "name": (string(minLength=1), "Name of a setting, such as `retention.ms`, or of a logger."),
    "namespace": (string(const="kafka"), "The only namespace."),
    "partition": (NODE, "Number of the partition, from 0."),
    "topic": (string(minLength=1), "Name of the topic."),
    "user": (string(minLength=1), "Name of the user."),
}
_QUERY: Mapping[str, tuple[Json, str]] = {
    "dry_run": (BOOLEAN | {"default": False}, "Only check whether it is possible."),
    "expected_version": (integer(), "Refuse with 409 when the version is another one."),
    "timeout": (integer(1, 600_000) | {"default": 10_000}, "Milliseconds until the broker stops waiting."),
    "timestamp": (OFFSET, "Milliseconds since 1970: the first record with this time or a later one."),
}
_IF_MATCH = parameter(
    "header", "If-Match", string(pattern=r'^("[0-9]{1,18}"|\*)$'), "The expected version, from an `ETag`."
)
_ERRORS = {
    400: "A parameter, name, setting or batch that cannot be used; an offset out of range; a body that ended early.",
    403: "The caller has not the permission for it.",
    404: "No such topic, partition, setting, cluster, broker, group, member or logger.",
    406: "No content type in `Accept` is supported.",
    408: "The body did not arrive in time.",
    409: "A concurrent change, another version, generation or sequence than expected, or a state that forbids it.",
    413: "A record, line or body that is too large.",
    415: "The `Content-Type` or `Content-Encoding` is not supported here.",
    422: "The body is invalid, or stored records cannot be decoded.",
    429: "A bounded queue is full, or the deadline passed before the append: slow down.",
    503: "Unavailable: no leader, too few replicas, the broker starts or stops. Nothing happened; retry.",
    504: "The outcome is unknown.",
    507: "No space left; nothing was stored.",
}
_READ = (400, 404, 503, 504)
_CHANGED = (*_READ, 409, 429, 507)
_WITH_BODY = (408, 413, 415, 422)


def describe_operation(row: HttpEndpoint) -> Json:
    """Return the operation object of an endpoint."""
    method = row.method
    parameters = [_path_parameter(row, name) for name in re.findall(r"{(\w+)}", row.pattern)]
    parameters += [_query_parameter(each) if isinstance(each, str) else each for each in row.query]
    headers = dict(row.headers)
    if "expected_version" in row.query:
        parameters.append(_IF_MATCH)
        headers |= ETAG
    operation: Json = {"summary": row.summary, "tags": [row.tag], "operationId": row.name}
    if parameters:
        operation["parameters"] = parameters
    if row.body is not None:
        operation["requestBody"] = _request_body(row.body)
    text = row.text or ("The answer." if method == "GET" else "Done.")
    status = "204" if row.found is None else "200"
    answers = {status: answer(text, row.found, row.content_types, headers)}
    if row.streams:
        answers[status]["content"] |= {name: {"schema": schema} for name, schema in row.streams.items()}
    more = {str(status): answer(text, found, headers=row.headers) for status, (text, found) in row.more.items()}
    return operation | {"responses": answers | _error_answers(row, method) | more}


def answer(
    text: str, found: Any = None, content_types: Sequence[str] = (JSON_TYPE,), headers: Mapping[str, Json] | None = None
) -> Json:
    """Return the object of an answer; it has no content without a type or schema."""
    shown: Json = {"description": text}
    if found is not None:
        shown["content"] = {content_type: {"schema": _schema(found)} for content_type in content_types}
    if headers:
        shown["headers"] = {name: {"schema": schema} for name, schema in headers.items()}
    return shown


def _error_answers(row: HttpEndpoint, method: str) -> Json:
    """Return the descriptions of an operation's error answers by status."""
    statuses = row.fails
    if statuses is None:
        statuses = (_READ if method == "GET" else _CHANGED) + (() if row.body is None else _WITH_BODY)
    if row.permissions:
        statuses = (*statuses, 403)
    return {str(status): answer(_ERRORS[status], row.error) for status in sorted(statuses)}


def _path_parameter(row: HttpEndpoint, name: str) -> Json:
    """Return the OpenAPI parameter of a path segment; the endpoint may have its own schema for it."""
    schema, text = _PATH[name]
    return parameter("path", name, row.path.get(name, schema), text, is_required=True)


def _query_parameter(name: str) -> Json:
    """Return the OpenAPI parameter of a query parameter that several endpoints share."""
    return in_query(name, *_QUERY[name])


def _request_body(kind: Any) -> Json:
    """Return the description of a request body of this type, which may be a description already."""
    if isinstance(kind, dict):
        return kind
    choices = get_args(kind)
    is_optional = NoneType in choices
    return {
        "required": not is_optional,
        "content": {JSON_TYPE: {"schema": _schema(choices[0] if is_optional else kind)}},
    }


def _schema(kind: Any) -> Json:
    """Return the schema of a type, of one of several types, or the given schema."""
    if isinstance(kind, tuple):
        return {"anyOf": [schema_of(each) for each in kind]}
    return kind if isinstance(kind, dict) else schema_of(kind)
