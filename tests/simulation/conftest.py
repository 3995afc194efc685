"""The virtual loop, closed after each test: closing is what unwinds what a crash left behind."""

from collections.abc import Iterator

import pytest

from jepsen.simulation import VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()
