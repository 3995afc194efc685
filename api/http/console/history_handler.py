"""Handler of GET /console/api/history: rates, latencies and lags of the last hour of the answering broker."""

import re
import time
from typing import Final

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST
from raftlog.api.http.bounds import NAME, NAME_PATTERN
from raftlog.api.http.console.history import INTERVAL_S, SAMPLES_MAX, SERIES
from raftlog.api.http.openapi.parts import integer
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.endpoint import HttpEndpoint, in_query
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import DESCRIBE_CLUSTER, LISTED_GROUPS
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import Target, query_int
from raftlog.partitions.groups.joins import TEXT_MAX
from raftlog.values.console import ConsoleHistory, GroupLagHistory

SECONDS_MIN: Final = 60
SECONDS_MAX: Final = int(INTERVAL_S * SAMPLES_MAX)
SHOWN_GROUPS_MAX: Final = 20
_SECONDS: Final = in_query(
    "seconds", integer(SECONDS_MIN, SECONDS_MAX) | {"default": SECONDS_MAX}, "Time before now to show."
)
_GROUP: Final = in_query("group", NAME, "Only the lag of this consumer group.")


class HistoryHandlers(Handlers):
    """Handler of GET /console/api/history."""

    kind = tag = "console"

    @HttpEndpoint(
        "GET /console/api/history",
        ConsoleHistory,
        (_SECONDS, _GROUP),
        fails=(400,),
        permissions=(*DESCRIBE_CLUSTER, *LISTED_GROUPS),
    )
    async def console_history(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return samples of this broker: rates, latencies, and lags of consumer groups that it coordinates."""
        seconds = query_int(target, "seconds", SECONDS_MAX, SECONDS_MIN, SECONDS_MAX)
        now_ms, history, visible = time.time_ns() // 1_000_000, self._context.console.history, self._visibility(request)
        places = history.places(now_ms - seconds * 1_000)
        only = _parse_group(target)
        names = [only] if only is not None else history.groups()
        shown = [name for name in names if visible.has_group(name)][:SHOWN_GROUPS_MAX]
        lags = {name: found for name in shown if (found := history.lags(name, places)) is not None}
        return value_answer(
            ConsoleHistory(
                node_id=self._broker.node_id,
                interval_ms=int(INTERVAL_S * 1_000),
                time_ms=now_ms,
                times_ms=history.times(places),
                series={name: history.series(name, places) for name in SERIES},
                groups=[GroupLagHistory(name, found) for name, found in lags.items()],
            )
        )


def _parse_group(target: Target) -> str | None:
    """Return the name of the group in the query, None without one. Raises `HttpProblem` 400."""
    name = target.query.get("group")
    if name is not None and (len(name) > TEXT_MAX or not re.search(NAME_PATTERN, name)):
        raise HttpProblem(BAD_REQUEST, f"the query parameter 'group' is {name!a:.60}; send 1 to {TEXT_MAX} characters")
    return name
