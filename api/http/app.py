"""One request's way: find its target, run the handler, turn what it raises into an answer."""

import logging

from aiohttp import web

from raftlog.api.codes import INTERNAL
from raftlog.api.http.answers import answer
from raftlog.api.http.bodies import BodyReader
from raftlog.api.http.clusters import ClusterHandlers
from raftlog.api.http.describing import DescribingHandlers
from raftlog.api.http.ends import Ends
from raftlog.api.http.groups import GroupHandlers
from raftlog.api.http.problems import INTERNAL_ERROR_BODY, HttpProblem, error_body
from raftlog.api.http.records_fetch import FetchHandlers
from raftlog.api.http.records_produce import ProduceHandlers
from raftlog.api.http.recovery import RecoveryHandlers
from raftlog.api.http.routing import Router
from raftlog.api.http.status import StatusHandlers
from raftlog.api.http.topics import TopicHandlers
from raftlog.errors import RaftlogError
from raftlog.partitions.broker import Broker

logger = logging.getLogger(__name__)


class HttpApp:
    """`handle` is what aiohttp's low-level server calls."""

    def __init__(self, broker: Broker, bodies: BodyReader, ends: Ends) -> None:
        self.responses: dict[int, int] = {200: 0}
        """Answers so far by status."""
        self.router = Router()
        for handlers in (
            ProduceHandlers(broker, bodies, ends),
            FetchHandlers(broker, ends),
            TopicHandlers(broker),
            ClusterHandlers(broker, bodies),
            GroupHandlers(broker, bodies),
            StatusHandlers(broker, self.responses),
            RecoveryHandlers(broker, bodies),
            DescribingHandlers(),
        ):
            handlers.add_to(self.router)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever happens."""
        try:
            target = self.router.find(request.raw_path)
            response = await target.handler(request.method)(request, target)
        except (RaftlogError, HttpProblem) as error:
            response = self._refusal(request, error)
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            response = answer(INTERNAL_ERROR_BODY, status=INTERNAL[0])
        status = response.status
        self.responses[status] = self.responses.get(status, 0) + 1
        return response

    def _refusal(self, request: web.BaseRequest, error: RaftlogError | HttpProblem) -> web.Response:
        status, body = error_body(error)
        response = answer(body, status=status)
        if isinstance(error, HttpProblem):
            response.headers.update(error.headers)
        if not request.content.is_eof():
            # The rest of a refused body is not worth receiving.
            response.force_close()
        return response
