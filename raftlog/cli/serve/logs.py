"""Logging of the broker: the standard library's loggers everywhere, structlog for the format of lines.

structlog takes long to import, and a start should not wait for it. So lines are held until `write_when_ready` writes
them, a warning, the end of the process, or `_HELD_MAX` lines. Held lines keep their times.
"""

import asyncio
import contextlib
import importlib
import logging
import sys
from logging.handlers import MemoryHandler

from raftlog import events
from raftlog.cli.serve.event_limit import EventLimit

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
_LINES = "raftlog.cli.serve.log_lines"
_HELD_MAX = 1_000


class _LateFormatter(logging.Formatter):
    """Formatter that imports the module of the real one at the first line."""

    def __init__(self, line_format: str) -> None:
        super().__init__()
        self._line_format = line_format
        self._formatter: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; the formatter's module is imported with the first one."""
        if self._formatter is None:
            self._formatter = importlib.import_module(_LINES).make_formatter(self._line_format)
        assert self._formatter is not None
        return self._formatter.format(record)


def configure(level: str, line_format: str) -> None:
    """Log to stderr from `level` up, as text or as one JSON object per line; limit the events per second."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LateFormatter(line_format))
    root = logging.getLogger()
    root.handlers[:] = [MemoryHandler(_HELD_MAX, logging.WARNING, handler)]
    root.setLevel(level.upper())
    events.set_gate(EventLimit())


async def write_when_ready(is_ready: asyncio.Event, seconds: float) -> None:
    """Write the held lines once the broker is ready, or after `seconds`; later lines are written at once."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await is_ready.wait()
    await asyncio.to_thread(importlib.import_module, _LINES)  # the import takes long, and the loop is busy at the start
    write_held()


def write_held() -> None:
    """Write the held lines; later lines are written at once."""
    root = logging.getLogger()
    for held in [each for each in root.handlers if isinstance(each, MemoryHandler)]:
        assert held.target is not None, "held lines have no handler"
        root.handlers[root.handlers.index(held)] = held.target
        held.close()
