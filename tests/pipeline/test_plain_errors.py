"""The stack is hidden only for errors of raftlog in a worker of Spark."""

import os
from collections.abc import Callable, Iterator

import pytest

from raftlog.errors import UnknownTopic
from raftlog.pipeline.plain_errors import hide_stack_traces


@hide_stack_traces
class Source:
    """Data source with the three kinds of methods that can raise."""

    def plans(self, error: Exception | None) -> int:
        if error is not None:
            raise error
        return 1

    def reads(self, error: Exception | None) -> Iterator[int]:
        yield 1
        if error is not None:
            raise error

    def iterates(self, error: Exception | None) -> Iterator[int]:
        return self.reads(error)


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")


def is_hidden() -> bool:
    return bool(os.environ.get("SPARK_HIDE_TRACEBACK"))


CALLS: list[Callable[[Exception | None], object]] = [
    Source().plans,
    lambda error: list(Source().reads(error)),
    lambda error: list(Source().iterates(error)),
]


@pytest.mark.parametrize("call", CALLS)
def test_the_stack_of_a_raftlog_error_in_a_worker_is_hidden(call: Callable[[Exception | None], object]) -> None:
    assert call(None) in (1, [1])
    with pytest.raises(KeyError):
        call(KeyError("a defect"))
    assert not is_hidden()
    with pytest.raises(UnknownTopic):
        call(UnknownTopic("there is no topic 'x'"))
    assert is_hidden()


def test_other_processes_show_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_PYTHON_RUNTIME")
    with pytest.raises(UnknownTopic):
        Source().plans(UnknownTopic("there is no topic 'x'"))
    assert not is_hidden()
