"""Handlers of the console's views of the cluster: health with next steps, brokers with their load, and moves."""

import asyncio
import time
from typing import Final, NamedTuple

from aiohttp import web

from raftlog.api.http.admin.brokers import with_maintenance_status
from raftlog.api.http.admin.parameters import node_id
from raftlog.api.http.console.health_actions import action_for
from raftlog.api.http.console.paging import PAGE_QUERY, parse_page, select_page
from raftlog.api.http.console.recent_answer import RecentAnswer
from raftlog.api.http.openapi.parts import NODE
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.endpoint import HttpEndpoint, in_query
from raftlog.api.http.server.handlers import HandlerContext, Handlers
from raftlog.api.http.server.permissions import DESCRIBE_CLUSTER, LISTED_TOPICS
from raftlog.api.http.server.routing import Target
from raftlog.api.http.visible_answers import visible_brokers, visible_health
from raftlog.errors import RaftlogError
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.values.brokers import BrokerDescription, ClusterHealth, ClusterMember
from raftlog.values.console import BrokerGossip, BrokerRow, ConsoleBrokers, ConsoleHealth, HealthReason, MovePage
from raftlog.values.placement import BalancerStatus, Reconfiguration

HEALTH_FRESH_S: Final = 5.0
"""Age up to which a report on all partitions is used again."""
HEALTH_MS: Final = 10_000
MOVES_FRESH_S: Final = 2.0
_BALANCER_MS: Final = 300
_NODE: Final = in_query("node", NODE, "Only moves from or to this broker.")


class FoundHealth(NamedTuple):
    """Health of the cluster, and the time at which it was found."""

    time_ms: int
    health: ClusterHealth


class ConsoleBrokerHandlers(Handlers):
    """Handlers of GET /console/api/health, /console/api/brokers and /console/api/moves."""

    kind = tag = "console"

    def __init__(self, context: HandlerContext) -> None:
        super().__init__(context)
        self._health = RecentAnswer(self._find_health, HEALTH_FRESH_S)
        self._moves = RecentAnswer(self._find_moves, MOVES_FRESH_S)

    async def _find_health(self) -> FoundHealth:
        """Return the present health of the cluster, with the time of the reading."""
        health = await self._broker.health(deadline=deadline_in(HEALTH_MS))
        return FoundHealth(time.time_ns() // 1_000_000, health)

    async def _find_moves(self) -> list[Reconfiguration]:
        """Return the reassignments in progress."""
        return await self._broker.operations.partitions.reconfigurations(deadline=deadline_in(HEALTH_MS))

    @HttpEndpoint("GET /console/api/health", ConsoleHealth, permissions=(*DESCRIBE_CLUSTER, *LISTED_TOPICS))
    async def console_health(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the health of the cluster, at most some seconds old, with the next step for each reason."""
        target.timeout_ms()
        self._broker.check_ready()
        found, visible = await self._health.get(), self._visibility(request)
        health = visible_health(found.health, visible, self._broker.topics()) if visible.is_limited else found.health
        pairs = zip(health.unhealthy_reasons, found.health.unhealthy_reasons, strict=True)
        reasons = [HealthReason(shown, action_for(reason)) for shown, reason in pairs]
        return value_answer(ConsoleHealth(time_ms=found.time_ms, health=health, reasons=reasons))

    @HttpEndpoint("GET /console/api/brokers", ConsoleBrokers, permissions=DESCRIBE_CLUSTER)
    async def console_brokers(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return all brokers with their state and load, and the state of the balancer."""
        deadline = target.deadline()
        found, balancer = await asyncio.gather(self._describe_brokers(request, deadline), self._balancer(deadline))
        members = {each.node_id: each for each in self._broker.members() if each.is_registered}
        controller = self._broker.controller_id
        rows = [_row(each, members.get(each.node_id), each.node_id == controller) for each in found]
        return value_answer(ConsoleBrokers(rows, balancer))

    async def _describe_brokers(self, request: web.BaseRequest, deadline: Deadline) -> list[BrokerDescription]:
        """Return the brokers with the progress of maintenance, without problems of hidden partitions."""
        found, visible = await self._broker.brokers(deadline=deadline), self._visibility(request)
        shown = visible_brokers(found, visible, self._broker.topics()) if visible.is_limited else found
        described = (with_maintenance_status(self._broker, each, deadline) for each in shown)
        return list(await asyncio.gather(*described))

    async def _balancer(self, deadline: Deadline) -> BalancerStatus | None:
        """Return the state of the balancer; None if the controller's leader does not report it in time."""
        until = Deadline(min(deadline, deadline_in(_BALANCER_MS)))
        try:
            return await self._broker.operations.balancing.balancer_status(deadline=until)
        except RaftlogError:
            return None

    @HttpEndpoint(
        "GET /console/api/moves", MovePage, (_NODE, *PAGE_QUERY), permissions=(*DESCRIBE_CLUSTER, *LISTED_TOPICS)
    )
    async def console_moves(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return a page of the pending reassignments with their progress; the filter is for topics."""
        wanted, text = parse_page(target), target.query.get("node")
        node = None if text is None else node_id(text)
        target.timeout_ms()
        visible = self._visibility(request)
        page = await select_page(
            await self._moves.get(),
            wanted,
            lambda move: (int(not move.learners), move.topic, move.partition),
            lambda move: visible.has_topic(move.topic),
            lambda move: wanted.has(move.topic) and (node is None or node in (*move.from_nodes, *move.to_nodes)),
        )
        return value_answer(MovePage(moves=page.rows, **page.bounds))


def _row(broker: BrokerDescription, member: ClusterMember | None, is_controller: bool) -> BrokerRow:
    """Return the row of a broker; `member`: the broker as gossip knows it, None without gossip."""
    return BrokerRow(
        **{name: getattr(broker, name) for name in BrokerDescription.__struct_fields__},
        gossip=None if member is None else BrokerGossip(member.state, member.state_s),
        load=None if member is None else member.load,
        is_controller=is_controller,
    )
