"""Tests of the transport run on both event loops: asyncio's own, and uvloop."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

FACTORIES = [asyncio.new_event_loop, uvloop.new_event_loop]
_TEST_TIMEOUT_S = 10


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Turn an asynchronous test without fixtures of its own into an ordinary one for each loop."""

    @pytest.mark.parametrize("new_loop", FACTORIES, ids=["asyncio", "uvloop"])
    def run(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(asyncio.wait_for(test(), _TEST_TIMEOUT_S))

    functools.update_wrapper(run, test)
    del run.__wrapped__  # pytest would take the signature from there
    return run
