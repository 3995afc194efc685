"""Three real brokers for all tests of a module, and topics of their own for each test."""

from collections.abc import Callable, Iterator

import pytest

from raftlog.testing import Cluster
from tests.integration.cluster_load import create_topic


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        cluster.wait_healthy()
        yield cluster


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Return a name of topics and groups that no other test uses."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)


@pytest.fixture
def make_topic(cluster: Cluster, name: str) -> Callable[..., str]:
    """Return a function that creates the topic of a test and waits for its leaders."""

    def make(partitions: int = 1, **config: object) -> str:
        create_topic(cluster.nodes[1].http, name, partitions, **config)
        for partition in range(partitions):
            cluster.leader(name, partition)
        return name

    return make
