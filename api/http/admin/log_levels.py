"""Handlers of GET and PUT /v1/config/log_level/{name}: log levels of this process, for a time or until it restarts."""

import asyncio
import logging
from typing import Final, NamedTuple

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, NOT_FOUND
from raftlog.api.http.openapi.parts import integer, string
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.endpoint import HttpEndpoint, in_query
from raftlog.api.http.server.handlers import HandlerContext, Handlers
from raftlog.api.http.server.permissions import ALTER_CLUSTER_CONFIGS, DESCRIBE_CLUSTER_CONFIGS
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import Target, query_choice, query_int
from raftlog.events import event
from raftlog.values.brokers import Logger, LogLevel

logger = logging.getLogger(__name__)

ROOT: Final = "raftlog"
LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
EXPIRES_S_DEFAULT: Final = 600
EXPIRES_S_MAX: Final = 7 * 24 * 3600
_PATH: Final = "/v1/config/log_level/{name}"
_NAME: Final = {"name": string(examples=[ROOT, "raftlog.partitions"])}
_LEVEL: Final = in_query("level", string(enum=list(LEVELS)), "Lowest level to log.", is_required=True)
_EXPIRES: Final = in_query(
    "expires",
    integer(0, EXPIRES_S_MAX) | {"default": EXPIRES_S_DEFAULT},
    "Seconds until the previous level is restored; 0: never.",
)


class _Override(NamedTuple):
    """Changed level of a logger: the level before, and the timer that restores it (None if it stays)."""

    before: int
    timer: asyncio.TimerHandle | None


class LogLevelHandlers(Handlers):
    """Handlers for the levels of this process's loggers: `raftlog` and the loggers below it."""

    def __init__(self, context: HandlerContext) -> None:
        super().__init__(context)
        self._overrides: dict[str, _Override] = {}

    @HttpEndpoint("GET /v1/loggers", list[Logger], (), fails=(400,), permissions=DESCRIBE_CLUSTER_CONFIGS)
    async def loggers(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the loggers of this broker with their levels."""
        names = sorted(name for name in logging.root.manager.loggerDict if _is_raftlog_logger(name))
        return value_answer([Logger(name, _level_of(name)) for name in names])

    @HttpEndpoint(f"GET {_PATH}", LogLevel, (), fails=(400, 404), path=_NAME, permissions=DESCRIBE_CLUSTER_CONFIGS)
    async def log_level(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the level of a logger of this broker."""
        return self._answer_level(_require_known(target.args[0]))

    @HttpEndpoint(
        f"PUT {_PATH}",
        LogLevel,
        (_LEVEL, _EXPIRES, "timeout"),
        fails=(400, 404),
        path=_NAME,
        permissions=ALTER_CLUSTER_CONFIGS,
    )
    async def set_log_level(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Set the level of a logger of this broker, for `expires` seconds or until the broker restarts (0)."""
        name, level = _require_known(target.args[0]), query_choice(target, "level", LEVELS, None)
        if level is None:
            raise HttpProblem(BAD_REQUEST, "the query parameter 'level' is missing")
        target.timeout_ms()  # unused, but clients may send it with every request; an invalid one is refused
        self._override(name, LEVELS[level], query_int(target, "expires", EXPIRES_S_DEFAULT, 0, EXPIRES_S_MAX))
        return self._answer_level(name)

    def _override(self, name: str, level: int, expires_s: int) -> None:
        """Set a level, and restore the former one after `expires_s` seconds (0: never)."""
        found = logging.getLogger(name)
        last = self._overrides.pop(name, None)
        if last is not None and last.timer is not None:
            last.timer.cancel()
        before = found.level if last is None else last.before
        timer = asyncio.get_running_loop().call_later(expires_s, self._restore, name) if expires_s else None
        self._overrides[name] = _Override(before, timer)
        found.setLevel(level)
        event(logger, "log_level_changed", modules=name, to=_level_of(name), expires_s=expires_s or None)

    def _restore(self, name: str) -> None:
        """End an override: set the logger's earlier level."""
        logging.getLogger(name).setLevel(self._overrides.pop(name).before)
        event(logger, "log_level_changed", modules=name, to=_level_of(name), expires_s=None)

    def _answer_level(self, name: str) -> web.Response:
        """Return the answer with a logger's level, and with the time until its override ends."""
        override = self._overrides.get(name)
        timer = override.timer if override is not None else None
        left_s = None if timer is None else max(0, round(timer.when() - asyncio.get_running_loop().time()))
        return value_answer(LogLevel(name, _level_of(name), left_s))


def _level_of(name: str) -> str:
    """Return the effective level of a logger, in lower case."""
    return logging.getLevelName(logging.getLogger(name).getEffectiveLevel()).lower()


def _is_raftlog_logger(name: str) -> bool:
    """Return whether a logger belongs to raftlog."""
    return name == ROOT or name.startswith(f"{ROOT}.")


def _require_known(name: str) -> str:
    """Return the name of an existing logger; raises `HttpProblem` 404.

    A logger that does not exist is never made here: names would accumulate."""
    if _is_raftlog_logger(name) and name in logging.root.manager.loggerDict:
        return name
    raise HttpProblem(NOT_FOUND, f"there is no logger {name!r}; /v1/loggers lists {ROOT!r} and those below it")
