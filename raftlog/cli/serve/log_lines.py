"""Format of a broker's log lines. Imported by `raftlog.cli.serve.logs` when the first line is written."""

import logging
import sys
from datetime import UTC, datetime

import structlog
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer
from structlog.types import EventDict, Processor


def _add_time(_: logging.Logger, __: str, line: EventDict) -> EventDict:
    """Add the time of the log call, in UTC; the line may be written later."""
    record: logging.LogRecord = line["_record"]
    line["timestamp"] = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
    return line


_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    _add_time,
)


def make_formatter(line_format: str) -> logging.Formatter:
    """Return a formatter of log lines: `text` for people, `json` for machines; times are UTC.

    Tracebacks show no values of variables, since those can be records."""
    last: list[Processor]
    if line_format == "json":
        without_values = ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
        last = [without_values, structlog.processors.JSONRenderer()]
    else:
        plain = structlog.dev.plain_traceback
        last = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0, exception_formatter=plain)]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_SHARED,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
