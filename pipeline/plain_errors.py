"""Errors of raftlog in Spark's workers without stack traces, so that users see only the message.

A worker sends Spark the stack trace of an error in a data source, and ends. The stack trace is left out if
SPARK_HIDE_TRACEBACK is set at that time. This module sets it only for errors of raftlog, which are self-explanatory;
errors of a user's functions and defects keep their stack traces. Called by the data sources, their readers and
writers."""

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from raftlog.errors import RaftlogError

_IN_WORKER: Final = ("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
"""Environment variable that Spark sets in workers only."""
_HIDES: Final = "SPARK_HIDE_TRACEBACK"
C = TypeVar("C", bound=type)


def hide_stack_traces(spark_class: C) -> C:
    """Hide the stack trace of raftlog errors that the class's methods raise. A class decorator."""
    for name, method in list(vars(spark_class).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(spark_class, name, _wrap(method))
    return spark_class


@contextmanager
def _without_stack() -> Iterator[None]:
    """Make Spark hide the stack trace of a raftlog error in a worker."""
    try:
        yield
    except RaftlogError:
        name, value = _IN_WORKER
        if os.environ.get(name) == value:
            os.environ[_HIDES] = "1"
        raise


def _wrap(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that raises raftlog errors without their stack traces, also while its generator runs."""

    @functools.wraps(method)
    def call_plainly(*args: Any, **named: Any) -> Any:
        """Call the method; raise raftlog errors without their stack traces."""
        with _without_stack():
            found = method(*args, **named)
        return _yield_plainly(found) if inspect.isgenerator(found) else found

    return call_plainly


def _yield_plainly(found: Iterator[Any]) -> Iterator[Any]:
    """Yield the items; raise raftlog errors without their stack traces."""
    with _without_stack():
        yield from found
