"""Logging of the broker: the standard library's loggers everywhere, structlog for what a line looks like.

structlog takes longer to import than the rest of this file takes to read, and a broker that starts well may have
nothing to say. So it is imported with the first line that is written.
"""

import importlib
import logging
import sys

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")


class _LateFormatter(logging.Formatter):
    """Fetches the real formatter when there is something to format."""

    def __init__(self, line_format: str) -> None:
        super().__init__()
        self._line_format = line_format
        self._formatter: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        if self._formatter is None:
            self._formatter = importlib.import_module("raftlog.cli.log_lines").formatter(self._line_format)
        assert self._formatter is not None
        return self._formatter.format(record)


def configure(level: str, line_format: str) -> None:
    """Log to stderr from `level` up, as text or as a JSON object a line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LateFormatter(line_format))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
