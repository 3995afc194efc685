"""Errors in one sentence, taken from the stack traces that Spark reports.

Called by `jobs`, `progress` and every job that runs a Spark action for a user."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from raftlog.pipeline.errors import PipelineFailed

CHARACTERS_MAX: Final = 2_000
"""Maximum length of a message in a raised error."""
_TRACEBACK: Final = "Traceback (most recent call last):\n"
_OURS: Final = "raftlog."
_MESSAGE_ALONE: Final = re.compile(r"(?:^|\s)raftlog\.(?:\w+\.)*[A-Z]\w*: (?P<message>.*)", re.DOTALL)
"""An error of raftlog without its stack (`hide_stack_traces`)."""
_RAISED: Final = re.compile(r"(?P<error>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?\Z", re.DOTALL)
_AFTER: Final = re.compile(
    r"\n(?:\s*\n|\tat | SQLSTATE: |\s*(?:Driver stacktrace|JVM stacktrace|During handling|The above))"
)
"""Text after the message: from Spark, or from Python where an exception was raised from another."""


@contextmanager
def convert_spark_errors(label: str) -> Iterator[None]:
    """Convert Spark's exceptions to `PipelineFailed` with the job's `label` and the reason; other exceptions pass."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise PipelineFailed(f"{label}: {extract_reason(str(error))}") from error


def extract_reason(report: str) -> str:
    """Return the last Python exception in Spark's report, else Spark's first message.

    For an error of raftlog this is its message; for any other, its class name and message."""
    _, found, last = report.rpartition(_TRACEBACK)
    if not found:
        alone = _MESSAGE_ALONE.search(report)
        if alone is not None:
            return _AFTER.split(alone["message"], maxsplit=1)[0].strip()[:CHARACTERS_MAX]
        return _AFTER.split(report.strip(), maxsplit=1)[0][:CHARACTERS_MAX]
    lines = last.splitlines(keepends=True)
    raised = "".join(lines[_stack_height(lines) :])
    match = _RAISED.match(_AFTER.split(raised, maxsplit=1)[0].strip())
    if match is None:
        return raised.strip()[:CHARACTERS_MAX]
    error, message = match["error"], match["message"] or ""
    if not message or not error.startswith(_OURS):
        message = f"{error.rpartition('.')[2]}: {message}".removesuffix(": ")
    return message[:CHARACTERS_MAX]


def _stack_height(lines: list[str]) -> int:
    """Return the number of call lines at the start of a traceback, which are indented, unlike the exception."""
    return next((number for number, line in enumerate(lines) if not line.startswith(" ")), len(lines))
