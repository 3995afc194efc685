"""What a sink's attempt puts up with."""

from typing import Any

import pytest

from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable
from raftlog.pipeline.brokers import connection
from raftlog.pipeline.errors import WriteForgotten
from raftlog.pipeline.sink import patience as sink_patience
from raftlog.pipeline.sink.patience import Patience


async def answered(*errors: RaftlogError) -> int:
    """After how many attempts of something that fails like this, and then does not any more."""
    left, attempts = list(errors), 0

    async def ask() -> int:
        nonlocal attempts
        attempts += 1
        if left:
            raise left.pop(0)
        return attempts

    return await Patience("asking", 60_000).reading(ask)


async def test_what_failed_or_may_have_is_asked_again() -> None:
    assert await answered() == 1
    assert await answered(Unavailable("nobody"), OutcomeUnknown("sent, and not answered")) == 3


async def test_what_is_forgotten_stays_so() -> None:
    with pytest.raises(WriteForgotten):
        await answered(WriteForgotten("no record"))


@pytest.mark.parametrize("module", [connection, sink_patience])
async def test_a_wait_of_a_second_is_logged_once(
    module: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "WARN_AFTER_S", 0.0)
    patience = connection.Patience(60.0) if module is connection else Patience("asking", 60_000)
    pause = patience.bear if isinstance(patience, connection.Patience) else patience.wait
    for _ in range(3):
        await pause(Unavailable("no broker answers"))
    assert [record.getMessage().rpartition("waiting for ")[2] for record in caplog.records] == [
        "up to 60 s: no broker answers"
    ]
