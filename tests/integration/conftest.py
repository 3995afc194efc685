"""Fixtures: one cluster for the tests of a module, repaired before each test."""

from collections.abc import Iterator

import pytest

from raftlog.testing import Cluster


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """Return three healthy brokers after undoing all effects of earlier tests."""
    shared_cluster.heal()
    down = [node for node in shared_cluster.nodes.values() if not node.is_running]
    for node in down:
        node.launch()
    for node in shared_cluster.nodes.values():
        node.resume()
        node.wait_ready()
    shared_cluster.wait_healthy()
    return shared_cluster


@pytest.fixture
def topic(request: pytest.FixtureRequest, cluster: Cluster) -> str:
    """Return a topic name that no other test uses."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
