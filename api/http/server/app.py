"""HTTP application: finds the handler of a request, calls it, and converts its errors to answers."""

import logging
from typing import Final

from aiohttp import web
from aiohttp.hdrs import AUTHORIZATION

from raftlog.api.codes import INTERNAL
from raftlog.api.http import admin, security
from raftlog.api.http.clusters import ClusterHandlers
from raftlog.api.http.console.brokers import ConsoleBrokerHandlers
from raftlog.api.http.console.change_policy import refuse_console_change
from raftlog.api.http.console.groups import ConsoleGroupHandlers
from raftlog.api.http.console.history_handler import HistoryHandlers
from raftlog.api.http.console.lists import ConsoleListHandlers
from raftlog.api.http.console.page_files import PageHandlers
from raftlog.api.http.console.records import ConsoleRecordHandlers
from raftlog.api.http.console.session import SessionHandlers
from raftlog.api.http.console.topics import ConsoleTopicHandlers
from raftlog.api.http.consumers.consumers import ConsumerHandlers
from raftlog.api.http.consumers.offsets import ConsumerOffsetHandlers
from raftlog.api.http.consumers.records import ConsumerRecordHandlers
from raftlog.api.http.entry_points import EntryPointHandlers
from raftlog.api.http.groups.groups import GroupHandlers
from raftlog.api.http.groups.membership import GroupMembershipHandlers
from raftlog.api.http.groups.v3 import GroupV3Handlers
from raftlog.api.http.metrics.handlers import MetricsHandlers
from raftlog.api.http.metrics.requests import UNKNOWN, RequestMetrics
from raftlog.api.http.producers import ProducerHandlers
from raftlog.api.http.records.fetch import FetchHandlers
from raftlog.api.http.records.produce import ProduceHandlers
from raftlog.api.http.recovery import RecoveryHandlers
from raftlog.api.http.restoring import RestoringHandlers
from raftlog.api.http.server.answers import answer
from raftlog.api.http.server.bodies import UNCHARGED_BYTES_MAX, BodyReader
from raftlog.api.http.server.connection import HttpConnection, caller_of, connection_of
from raftlog.api.http.server.connections import ConnectionEnds
from raftlog.api.http.server.handlers import ConsoleContext, HandlerContext, Handlers
from raftlog.api.http.server.logins import HttpLogins, is_readiness, strip_answer
from raftlog.api.http.server.origins import OriginPolicy
from raftlog.api.http.server.permissions import authorize_route
from raftlog.api.http.server.problems import INTERNAL_ERROR_BODY, HttpProblem, error_body, retry_headers
from raftlog.api.http.server.repeated_requests import FoundRequest, RepeatedRequest, RepeatedRequests
from raftlog.api.http.server.request_headers import header
from raftlog.api.http.server.request_quotas import answer_within_quotas
from raftlog.api.http.server.routing import HttpRouter, Route, Target
from raftlog.api.http.status import StatusHandlers
from raftlog.api.http.topics import TopicHandlers
from raftlog.api.http.traces import TraceHandlers
from raftlog.api.http.transactional_producers import TransactionalProducerHandlers
from raftlog.api.http.transactions import TransactionHttpHandlers
from raftlog.errors import RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.runtime.histogram import stopwatch
from raftlog.runtime.memory_budget import MemoryBudget, MemoryShares

logger = logging.getLogger(__name__)

OK: Final = 200
UNAUTHORIZED: Final = 401
_SAFE: Final = ("GET", "HEAD")
CONSOLE_HANDLERS: Final[tuple[type[Handlers], ...]] = (
    PageHandlers,
    SessionHandlers,
    ConsoleTopicHandlers,
    ConsoleGroupHandlers,
    ConsoleBrokerHandlers,
    ConsoleListHandlers,
    ConsoleRecordHandlers,
    HistoryHandlers,
)
"""Handlers of the console, which can be off."""
HANDLERS: Final[tuple[type[Handlers], ...]] = (
    ProduceHandlers,
    FetchHandlers,
    TopicHandlers,
    ClusterHandlers,
    GroupHandlers,
    GroupMembershipHandlers,
    GroupV3Handlers,
    ProducerHandlers,
    TransactionHttpHandlers,
    TransactionalProducerHandlers,
    ConsumerHandlers,
    ConsumerRecordHandlers,
    ConsumerOffsetHandlers,
    StatusHandlers,
    admin.BrokerHandlers,
    admin.PartitionHandlers,
    admin.MoveHandlers,
    admin.SettingHandlers,
    admin.LogLevelHandlers,
    security.UserHandlers,
    security.AclHandlers,
    security.QuotaHandlers,
    RecoveryHandlers,
    RestoringHandlers,
    MetricsHandlers,
    TraceHandlers,
    EntryPointHandlers,
    *CONSOLE_HANDLERS,
)


class HttpApp:
    """HTTP application of a broker; aiohttp's low-level server calls `handle`."""

    def __init__(
        self,
        broker: Broker,
        bodies: BodyReader,
        ends: ConnectionEnds,
        metrics_partitions_max: int,
        logins: HttpLogins | None = None,
        *,
        console: ConsoleContext,
    ) -> None:
        """Create the application with all endpoints; those of the console only if `console` is on.

        `logins` is None without authentication."""
        self.origins = OriginPolicy()
        """Allowed origins and hosts; the server replaces it by the policy of its address."""
        self._ends, self._bodies, self._authorizer = ends, bodies, broker.security.authorizer
        self._logins, self._rates = logins, broker.security.rates
        self.answers = MemoryBudget(MemoryShares.divide(broker.settings.memory_budget_bytes).answers)
        frames = broker.receive_budget
        self.request_metrics = RequestMetrics({"frames": frames, "requests": bodies.memory, "answers": self.answers})
        self.router = HttpRouter()
        context = HandlerContext(
            broker, bodies, ends, self.answers, self.request_metrics, metrics_partitions_max, self.router, console
        )
        self._repeated = RepeatedRequests(min(UNCHARGED_BYTES_MAX, bodies.body_bytes_max))
        self._refuses_console_changes = not console.allows_changes
        for handlers in HANDLERS:
            if console.is_on or handlers not in CONSOLE_HANDLERS:
                handlers(context).add_to(self.router)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the answer to one request; every error becomes an answer."""
        began, kind = stopwatch(), UNKNOWN
        try:
            self.origins.check(request)
            is_bare = False
            if self._logins is not None and not self._logins.is_current(request):
                is_bare = is_readiness(request)
                if not is_bare:
                    await self._logins.log_in(request)
            target = self.router.find(request.raw_path)
            handler, takes_body, parameters, kind, permissions, _ = route = target.route(request.method)
            if self._authorizer.is_on:
                authorize_route(self._authorizer, caller_of(request), permissions, target.args)
            if self._refuses_console_changes and request.method not in _SAFE:
                refuse_console_change(request)
            if not takes_body and request.body_exists:
                await self._bodies.refuse(request, parameters or ())
            if self._rates.is_on:
                work = handler(request, target)
                response = await answer_within_quotas(self._rates, request, kind, work)
            else:
                response = await handler(request, target)
                self._remember_head(request, target, route, response)
            if is_bare:
                response = strip_answer(response)
        except (RaftlogError, HttpProblem) as error:
            response = self._error_answer(error)
            if not request.content.is_eof():
                # The rest of a refused body is not received.
                response.force_close()
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            response = answer(INTERNAL_ERROR_BODY, status=INTERNAL[0])
        if self._ends.stopping.done() and not response.prepared:
            response.force_close()
        self.request_metrics.count_answer(kind, began, response)
        return response

    def _remember_head(
        self, request: web.BaseRequest, target: Target, route: Route, response: web.StreamResponse
    ) -> None:
        """Remember the head of an accepted request, if its handler has one for repeated requests."""
        connection = connection_of(request)
        head, find_handler = connection.arrived_head, route.find_repeated_handler
        connection.arrived_head = None
        if head is None or find_handler is None or response.status != OK or not request.keep_alive:
            return
        handler = find_handler(request, target)
        if handler is not None:
            authorization = header(request, AUTHORIZATION)
            repeated = RepeatedRequest(handler, authorization, route.permissions, target.args, route.kind)
            self._repeated.remember(head, repeated)

    def find_repeated(self, connection: HttpConnection, data: bytes) -> FoundRequest | None:
        """Return the request of which `data` is the head, alone or with the whole body.

        None if its head was not accepted before, or it needs a login or is subject to quotas."""
        found = self._repeated.find(data)
        if found is None or self._rates.is_on or self._ends.stopping.done():
            return None
        if self._logins is not None and not self._logins.is_logged_in(connection, found.request.authorization):
            return None
        return found

    async def answer_repeated(self, connection: HttpConnection, found: FoundRequest) -> bytes | web.Response:
        """Return the body of a 200 answer in JSON, or another answer; every error becomes an answer."""
        request = found.request
        answered: bytes | web.Response
        try:
            if self._authorizer.is_on:
                authorize_route(self._authorizer, connection.caller, request.permissions, request.args)
            answered = await request.handler(found.body)
        except (RaftlogError, HttpProblem) as error:
            answered = self._error_answer(error)
        except Exception:
            logger.exception("a repeated request of class %s failed", request.kind)
            answered = answer(INTERNAL_ERROR_BODY, status=INTERNAL[0])
        status = OK if isinstance(answered, bytes) else answered.status
        if self._ends.stopping.done():
            if isinstance(answered, bytes):
                answered = answer(answered)
            answered.force_close()
        self.request_metrics.count(request.kind, stopwatch() - found.began, status)
        return answered

    def _error_answer(self, error: RaftlogError | HttpProblem) -> web.Response:
        """Return the answer to a request that failed."""
        status, body = error_body(error)
        response = answer(body, status=status)
        if isinstance(error, HttpProblem):
            response.headers.update(error.headers)
        else:
            response.headers.update(retry_headers(error))
        if status == UNAUTHORIZED and self._logins is not None:
            self._logins.challenge(response)
        return response
