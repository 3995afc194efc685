"""Outages during which an attempt of a sink waits."""

import pytest

from raftlog.client import outage as client_outage
from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable
from raftlog.pipeline.errors import WriteForgotten
from raftlog.pipeline.sink.settings import SinkSettings


async def count_attempts(*errors: RaftlogError) -> int:
    """Return the number of attempts of an operation that fails with these errors, and then succeeds."""
    left, attempts = list(errors), 0

    async def ask() -> int:
        nonlocal attempts
        attempts += 1
        if left:
            raise left.pop(0)
        return attempts

    return await SinkSettings(("127.0.0.1:1",), delivery_timeout_ms=60_000).outage("asking").repeat(ask)


async def test_failed_and_unknown_requests_are_retried() -> None:
    assert await count_attempts() == 1
    assert await count_attempts(Unavailable("no broker"), OutcomeUnknown("sent, and not answered")) == 3


async def test_an_expired_write_is_not_retried() -> None:
    with pytest.raises(WriteForgotten):
        await count_attempts(WriteForgotten("no record"))


async def test_a_wait_of_a_second_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client_outage, "WARN_AFTER_S", 0.0)
    assert await count_attempts(*[Unavailable("no broker answers")] * 3) == 4
    [warned] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned.endswith("waiting for up to 60 s: no broker answers")
