"""Handlers of the console's lists of transactional ids, users and entries of access control, in pages."""

from typing import Final, get_args

from aiohttp import web

from raftlog.api.http.console.paging import PAGE_QUERY, parse_page, select_page
from raftlog.api.http.console.recent_answer import RecentAnswer
from raftlog.api.http.openapi.parts import string
from raftlog.api.http.security.acls import describe_acl
from raftlog.api.http.security.users import describe_user
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.endpoint import HttpEndpoint, in_query
from raftlog.api.http.server.handlers import HandlerContext, Handlers
from raftlog.api.http.server.permissions import DESCRIBE_CLUSTER, LISTED_TRANSACTIONS
from raftlog.api.http.server.routing import Target, query_choice
from raftlog.api.http.transactions import summary_fields
from raftlog.partitions.deadline import deadline_in
from raftlog.security.permissions import AclFilter
from raftlog.values.console import AclPage, TransactionPage, UserPage
from raftlog.values.transactions import TransactionStateName, TransactionSummary

FRESH_S: Final = 2.0
LIST_MS: Final = 5_000
_STATES: Final[tuple[str, ...]] = get_args(TransactionStateName)
_STATE: Final = in_query("state", string(enum=list(_STATES)), "Only transactional ids in this state.")


class ConsoleListHandlers(Handlers):
    """Handlers of GET /console/api/transactions, /console/api/users and /console/api/acls."""

    kind = tag = "console"

    def __init__(self, context: HandlerContext) -> None:
        super().__init__(context)
        self._transactions = RecentAnswer(
            lambda: self._broker.transactions.listings(deadline=deadline_in(LIST_MS)), FRESH_S
        )

    @HttpEndpoint(
        "GET /console/api/transactions", TransactionPage, (_STATE, *PAGE_QUERY), permissions=LISTED_TRANSACTIONS
    )
    async def console_transactions(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return a page of transactional ids with their states, at most some seconds old."""
        wanted, state, visible = (
            parse_page(target),
            query_choice(target, "state", _STATES, None),
            self._visibility(request),
        )
        target.timeout_ms()
        page = await select_page(
            await self._transactions.get(),
            wanted,
            lambda each: (each.transactional_id,),
            lambda each: visible.has_transactional_id(each.transactional_id),
            lambda each: state in (None, each.state) and wanted.has(each.transactional_id),
        )
        rows = [TransactionSummary(**summary_fields(each)) for each in page.rows]
        return value_answer(TransactionPage(transactions=rows, **page.bounds))

    @HttpEndpoint("GET /console/api/users", UserPage, PAGE_QUERY, permissions=DESCRIBE_CLUSTER)
    async def console_users(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return a page of the users by name."""
        wanted = parse_page(target)
        found = await self._broker.security.users.list(deadline=target.deadline())
        page = await select_page(
            found, wanted, lambda each: (each.name,), lambda _: True, lambda each: wanted.has(each.name)
        )
        return value_answer(UserPage(users=list(map(describe_user, page.rows)), **page.bounds))

    @HttpEndpoint("GET /console/api/acls", AclPage, PAGE_QUERY, permissions=DESCRIBE_CLUSTER)
    async def console_acls(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return a page of the entries of access control; the filter is for principals and names of resources."""
        wanted = parse_page(target)
        found = await self._broker.security.acls.describe(AclFilter(), deadline=target.deadline())
        page = await select_page(
            found,
            wanted,
            lambda each: (
                each.principal,
                each.resource_type.name,
                each.resource_name,
                each.pattern_type.name,
                each.operation.name,
                each.effect.name,
                each.host,
            ),
            lambda _: True,
            lambda each: wanted.has(each.principal, each.resource_name),
        )
        return value_answer(AclPage(acls=list(map(describe_acl, page.rows)), **page.bounds))
