"""What a sink's attempt puts up with."""

import pytest

from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable
from raftlog.pipeline.errors import WriteForgotten
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
