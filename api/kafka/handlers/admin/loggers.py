"""Levels of this process's loggers, with Kafka's names of levels."""

import logging
from typing import Final

from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.admin.config_catalogue import unknown_name
from raftlog.api.kafka.handlers.admin.outcomes import AdminRefusal
from raftlog.events import event

_logger = logging.getLogger(__name__)

ROOT: Final = "raftlog"
LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES: Final = {level: name for name, level in LEVELS.items()}


def levels() -> list[tuple[str, str]]:
    """Return the loggers with their levels, sorted by name."""
    return [(name, _level_of(name)) for name in _logger_names()]


def check(name: str, level: str | None) -> None:
    """Raise `AdminRefusal` unless the logger exists and the level is valid; None: the parent's level."""
    if name not in _logger_names():
        raise unknown_name(name, "logger", _logger_names())
    if level is None and name == ROOT:
        raise AdminRefusal(ErrorCode.INVALID_REQUEST, f"Logger {ROOT!r} has no parent; set a level")
    if level is not None and level.strip().upper() not in LEVELS:
        raise AdminRefusal(
            ErrorCode.INVALID_CONFIG, f"{level!r:.40} is not a level; the levels are {', '.join(LEVELS)}"
        )


def set_level(name: str, level: str | None) -> None:
    """Set the level of a logger until the process ends; None restores the parent's level."""
    check(name, level)
    logging.getLogger(name).setLevel(logging.NOTSET if level is None else LEVELS[level.strip().upper()])
    event(_logger, "log_level_changed", modules=name, to=_level_of(name).lower(), expires_s=None)


def _logger_names() -> list[str]:
    """Return the names of all loggers of raftlog, sorted."""
    return sorted(name for name in logging.root.manager.loggerDict if name == ROOT or name.startswith(f"{ROOT}."))


def _level_of(name: str) -> str:
    """Return the effective level of a logger by Kafka's name."""
    level = logging.getLogger(name).getEffectiveLevel()
    return _NAMES.get(level, logging.getLevelName(level))
