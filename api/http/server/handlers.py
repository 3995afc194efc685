"""Base classes of request handlers, whose methods have endpoints."""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple

from aiohttp import web
from msgspec import structs

from raftlog.api.http.console.history import History
from raftlog.api.http.leader_header import leader_header
from raftlog.api.http.metrics.requests import RequestMetrics
from raftlog.api.http.server.answers import no_content, value_answer
from raftlog.api.http.server.bodies import BodyReader
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.connections import ConnectionEnds
from raftlog.api.http.server.endpoint import HttpEndpoint
from raftlog.api.http.server.permissions import Visibility
from raftlog.api.http.server.repeated_requests import RepeatedHandler
from raftlog.api.http.server.routing import Handler, HttpRouter, Target
from raftlog.partitions.broker import Broker
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.security.permissions import AclOperation
from raftlog.values.value import Value


class ConsoleContext(NamedTuple):
    """Settings of the console of one listener."""

    history: History
    is_on: bool = True
    allows_changes: bool = False


class HandlerContext(NamedTuple):
    """Components and settings of one listener that all handlers share."""

    broker: Broker
    bodies: BodyReader
    ends: ConnectionEnds
    answers: MemoryBudget
    """Memory for answers."""
    request_metrics: RequestMetrics
    metrics_partitions_max: int
    """Maximum number of partitions with metric series of their own."""
    router: HttpRouter
    console: ConsoleContext


class Handlers:
    """Base of the handlers of one resource."""

    kind: ClassVar[str] = "operators"
    """Class of the requests in the metrics."""
    tag: ClassVar[str] = "operators"
    """Group of the operations in the OpenAPI document."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context
        self._broker, self._bodies, self._ends, self._answers = context[:4]
        self._authorizer = context.broker.security.authorizer

    def _authorize_read(self, request: web.BaseRequest, topics: Iterable[str]) -> None:
        """Raise `TopicNotAuthorized` unless the caller may read all these topics."""
        self._authorizer.authorize_topics(caller_of(request), AclOperation.READ, topics)

    def _visibility(self, request: web.BaseRequest) -> Visibility:
        """Return the topics and groups that the caller may describe."""
        return Visibility(self._authorizer, caller_of(request))

    @classmethod
    def endpoints(cls) -> Iterator[tuple[str, HttpEndpoint]]:
        """Yield the endpoints with the names of their methods, in the methods' order."""
        for name, method in vars(cls).items():
            for each in getattr(method, "endpoints", ()):
                yield name, each if each.tag else structs.replace(each, tag=cls.tag)

    def add_to(self, router: HttpRouter) -> None:
        """Add all endpoints of the class to the router."""
        for name, endpoint in self.endpoints():
            handler = self.wrap_handler(getattr(self, name))
            router.add(endpoint, handler, self.kind, self.find_repeated_handler)

    def find_repeated_handler(self, _request: web.BaseRequest, _target: Target) -> RepeatedHandler | None:
        """Return the handler of later requests with the head of this request, None if they are parsed again."""
        return None

    def wrap_handler(self, handler: Handler) -> Handler:
        """Return the handler with the checks that all endpoints of the class share."""
        return handler


class GroupAnswers(Handlers):
    """Base of handlers for consumer groups, whose answers name the coordinator, so that clients can connect to it."""

    def _add_coordinator(self, response: web.Response, group: str) -> web.Response:
        """Add the address of the group's coordinator to a response if it is another broker; return the response."""
        response.headers.update(leader_header(self._broker, self._broker.groups.leader_of(group)))
        return response

    def _answer(self, group: str, found: Value | Sequence[Value] | None = None) -> web.Response:
        """Return an answer with a value, or with status 204 without one.

        The coordinator of `group` is named in a header if it is another broker."""
        return self._add_coordinator(no_content() if found is None else value_answer(found), group)
