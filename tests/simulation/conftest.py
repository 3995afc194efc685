"""Virtual loop that is closed after each test, which unwinds coroutines left by crashes."""

from collections.abc import Iterator

import pytest

from jepsen.simulation import VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()
