"""A short run of the fuzzer; `python -m tests.kafka.fuzz` runs longer."""

import logging

import pytest

from tests.kafka.fuzz import fuzz


@pytest.mark.parametrize("seed", range(4))
async def test_any_frame_is_answered_or_closes_its_connection(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    result = await fuzz(3_000, seed)
    assert result.answered > 10
    assert result.closed > 1_000
    assert result.unanswered > 200
