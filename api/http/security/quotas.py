"""/v1/security/quotas: client quotas of users, client ids and addresses."""

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, INVALID_JSON
from raftlog.api.http.bounds import QUOTAS_MAX
from raftlog.api.http.requests import QuotasBody
from raftlog.api.http.server.answers import no_content, value_answer
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import HttpEndpoint
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import ALTER_CLUSTER_CONFIGS, DESCRIBE_CLUSTER_CONFIGS
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import Target, flag
from raftlog.values.security import QuotaDescription

_QUOTAS = "/v1/security/quotas"


class QuotaHandlers(Handlers):
    """Handlers for client quotas."""

    @HttpEndpoint(f"GET {_QUOTAS}", list[QuotaDescription], permissions=DESCRIBE_CLUSTER_CONFIGS)
    async def client_quotas(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return all entities with quotas."""
        found = await self._broker.security.quotas.describe(deadline=target.deadline())
        return value_answer([QuotaDescription(each.entity, each.values) for each in found])

    @HttpEndpoint(f"PUT {_QUOTAS}", query=("dry_run", "timeout"), body=QuotasBody, permissions=ALTER_CLUSTER_CONFIGS)
    async def alter_client_quotas(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Set some quotas of an entity, and remove others; all or none.

        The body is `{"entity": {"user": "alice"}, "upsert"?: {name: value}, "remove"?: [name]}`."""
        deadline, dry_run = target.deadline(), flag(target, "dry_run")
        body = await self._bodies.read(request, QuotasBody)
        both = sorted({*body.upsert} & {*body.remove})
        if both:
            raise HttpProblem(BAD_REQUEST, f"{both[0]!r} cannot be set and removed at once")
        if len(body.remove) > QUOTAS_MAX:
            raise HttpProblem(BAD_REQUEST, f"'remove' has {len(body.remove)} names; it can have {QUOTAS_MAX}")
        for name, value in body.upsert.items():
            if type(value) not in (int, float):
                raise HttpProblem(INVALID_JSON, f"the value of quota {name!r:.60} is not a number")
        for kind, named in body.entity.items():
            if type(named) is not str:
                raise HttpProblem(INVALID_JSON, f"the name of the entity {kind!r:.60} is not text")
        changes: dict[str, float | None] = {**body.upsert, **dict.fromkeys(body.remove)}
        await self._broker.security.quotas.alter(
            body.entity, changes, caller=caller_of(request), deadline=deadline, dry_run=dry_run
        )
        return no_content()
