"""Result of one run at any level, and the redirection of its log."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from jepsen.simulation.verdicts import PropertyBroken
from jepsen.simulation.virtual_time.loop import VirtualLoop

TIMELINE_LINES = 60


class Failure(NamedTuple):
    """Failure of a run. `name` is a property, or the kind of an error that code under test raised."""

    name: str
    what: str
    is_property: bool
    """Whether a check of the harness failed; false for an error or assertion of the code under test."""
    timeline: str


class Outcome(NamedTuple):
    """Result of one run; `level` names the simulated parts."""

    seed: int
    failure: Failure | None
    options: str
    digest: str
    virtual_s: float
    cpu_s: float
    steps: int
    acknowledged: int
    level: str = "driver"
    shape: str = ""
    """Options of the command, besides the seed, that determine the run."""


class LogToTimeline(logging.Handler):
    """Log handler that adds the product's log records to the timeline of its run."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(logging.WARNING)
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        """Add the record to the timeline, under the name of the node whose process wrote it, or `log`."""
        process = self._loop.process
        self._loop.note("log" if process is None else process.node.name, record.getMessage())


def shape_of(
    *,
    unordered_syncs: bool,
    cut_ambushes: bool = False,
    lost_files: bool = False,
    early_changes: bool = False,
    growth: bool = False,
    kafka: bool = False,
    transactions: bool = False,
) -> str:
    """Return the options, other than the seed, of the command that repeats the run; empty without any."""
    if cut_ambushes:
        return " --cut-ambushes"
    wanted = {
        " --unordered-syncs": unordered_syncs,
        " --lost-files": lost_files,
        " --early-changes": early_changes,
        " --growth": growth,
        " --kafka": kafka,
        " --transactions": transactions,
    }
    return "".join(option for option, is_wanted in wanted.items() if is_wanted)


@contextmanager
def log_to_timeline(loop: VirtualLoop) -> Iterator[None]:
    """Redirect the log to the timeline in the block; nothing is printed."""
    log, handler = logging.getLogger("raftlog"), LogToTimeline(loop)
    log.addHandler(handler)
    before, log.propagate = log.propagate, False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = before


def failure_of(loop: VirtualLoop, error: Exception) -> Failure:
    """Return the failure for the exception that ended a run."""
    timeline = loop.trace.timeline(TIMELINE_LINES)
    if isinstance(error, PropertyBroken):
        return Failure(error.name, str(error), True, timeline)
    text = "".join(traceback.format_exception(error))
    return Failure(type(error).__name__, text, False, timeline)
