"""Parsers of the common parts of operators' requests: deadline, names in the path, expected versions."""

import re
from typing import Final

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, NOT_FOUND
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import header
from raftlog.api.http.server.routing import Target, parse_integer, partition_number

NAMESPACE: Final = "kafka"
_NODE_MAX: Final = (1 << 31) - 1
_VERSION_MAX: Final = (1 << 63) - 1
_TAG = re.compile(r'"(\d{1,19})"', re.ASCII)


def node_of(target: Target) -> int:
    """Return the node id of the broker in a path; raises `HttpProblem` 400."""
    return node_id(target.args[0])


def node_id(text: str) -> int:
    """Return a node id from its text; raises `HttpProblem` 400."""
    return parse_integer(text, "the broker", 0, _NODE_MAX)


def topic_in_namespace(target: Target) -> str:
    """Return the topic in a path below a namespace; raises `HttpProblem` for another namespace than `kafka`."""
    namespace, topic = target.args[:2]
    if namespace != NAMESPACE:
        raise HttpProblem(NOT_FOUND, f"there is no namespace {namespace!r}; topics are in {NAMESPACE!r}")
    return topic


def place_of(target: Target) -> tuple[str, int]:
    """Return topic and partition from a path below a namespace; raises `HttpProblem`."""
    return topic_in_namespace(target), partition_number(target.args[2])


def expected_version(request: web.BaseRequest, target: Target) -> int | None:
    """Return the expected version, `?expected_version=7` or `If-Match: "7"`; None without one. Raises `HttpProblem`."""
    text, tag = target.query.get("expected_version"), header(request, "If-Match")
    asked = None if text is None else parse_integer(text, "the query parameter 'expected_version'", 0, _VERSION_MAX)
    matched = _version_of(tag)
    if asked is not None and matched is not None and asked != matched:
        raise HttpProblem(BAD_REQUEST, f"expected_version is {asked}, and If-Match is {tag}; give one of them")
    return matched if asked is None else asked


def _version_of(tag: str | None) -> int | None:
    """Return the version in an `If-Match` header; None without one, and for `*`. Raises `HttpProblem` 400."""
    if tag is None or tag == "*":
        return None
    found = _TAG.fullmatch(tag)
    if found is None or int(found[1]) > _VERSION_MAX:
        raise HttpProblem(BAD_REQUEST, f'the header If-Match is {tag}; it can be a version in quotes, such as "7"')
    return int(found[1])
