"""Handler of GET /console/api/session: the user, the broker, and the allowed operations.

Answered from the state of this broker, also while the broker starts or has no quorum. The answer has no name that a
permission protects, so it needs no permission, only a login if the listener requires one."""

import time

from aiohttp import web

import raftlog
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import HttpEndpoint
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.routing import Target
from raftlog.partitions.caller import ANONYMOUS
from raftlog.security.permissions import CLUSTER, USER_PREFIX, AclOperation
from raftlog.values.console import AllowedOperations, ConsoleSession


class SessionHandlers(Handlers):
    """Handler of GET /console/api/session."""

    kind = tag = "console"

    @HttpEndpoint("GET /console/api/session", ConsoleSession, (), fails=(400,))
    async def console_session(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the user, the broker and the operations that the console may offer."""
        caller, broker = caller_of(request), self._broker
        allowed = [
            self._authorizer.allows(caller, operation, CLUSTER)
            for operation in (
                AclOperation.DESCRIBE,
                AclOperation.ALTER,
                AclOperation.DESCRIBE_CONFIGS,
                AclOperation.ALTER_CONFIGS,
                AclOperation.CREATE,
            )
        ]
        return value_answer(
            ConsoleSession(
                principal=USER_PREFIX + caller.principal,
                user=None if caller.principal == ANONYMOUS else caller.principal,
                node_id=broker.node_id,
                cluster_id=broker.cluster_id,
                version=raftlog.__version__,
                time_ms=time.time_ns() // 1_000_000,
                is_ready=broker.is_ready,
                writes_allowed=self._context.console.allows_changes,
                has_authorization=self._authorizer.is_on,
                may=AllowedOperations(*allowed),
            )
        )
