"""Fixtures: connections without sockets, which end with the test."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from raftlog.api.kafka.wire import schemas
from tests.kafka.harness import Edge


@pytest.fixture(autouse=True, scope="session")
def _load_schemas() -> None:
    schemas.load()


@pytest.fixture
async def make_edge() -> AsyncIterator[Any]:
    """Return a function that makes an edge; its requests are cancelled at the end."""
    made: list[Edge] = []

    def make(**settings: Any) -> Edge:
        made.append(Edge(**settings))
        return made[-1]

    yield make
    for edge in made:
        for future in edge.waiting:
            future.cancel()
        await edge.connections.stop(0, 0)


@pytest.fixture
async def edge(make_edge) -> Edge:
    return make_edge()
