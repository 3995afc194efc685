"""Errors of raftlog in Spark's workers: users see the message, without the stack of calls that led to it.

A worker sends Spark the stack of an error in a data source, and ends. The stack is left out when SPARK_HIDE_TRACEBACK
is set at that time. It is set here only for errors of raftlog, which are self-explanatory; a user's own functions and
defects keep their stacks. Called by the data sources, their readers and writers."""

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


def plain_errors(spark_class: C) -> C:
    """Hide the stack of raftlog errors that the class's methods raise."""
    for name, method in list(vars(spark_class).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(spark_class, name, _plain(method))
    return spark_class


@contextmanager
def _without_stack() -> Iterator[None]:
    try:
        yield
    except RaftlogError:
        name, value = _IN_WORKER
        if os.environ.get(name) == value:
            os.environ[_HIDES] = "1"
        raise


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def called(*args: Any, **named: Any) -> Any:
        with _without_stack():
            found = method(*args, **named)
        return _each(found) if inspect.isgenerator(found) else found

    return called


def _each(found: Iterator[Any]) -> Iterator[Any]:
    with _without_stack():
        yield from found
