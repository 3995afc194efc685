"""pytest plugin: fixtures that start clusters for a test. pytest finds it by the package's entry point.

    def test_something(raftlog_cluster):
        client = MyClient(raftlog_cluster.addresses)
        raftlog_cluster.nodes[1].kill()

    def test_more(raftlog_cluster_factory):
        cluster = raftlog_cluster_factory(5, serve_flags=["--topic-config", "segment.bytes=65536"])

The report of a test that fails contains the logs of its brokers."""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

from raftlog.testing.cluster import Cluster

LOG_SHOWN_CHARACTERS: Final = 20_000
"""Maximum length of each node's log in a report, which shows its end."""

_started: Final = pytest.StashKey[list[Cluster]]()


@pytest.fixture
def raftlog_cluster_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """Return a function `(nodes, **options)` that starts a cluster, with the arguments of `raftlog.testing.Cluster`.

    All clusters are closed at the end of the test."""
    clusters = request.node.stash.setdefault(_started, [])
    with ExitStack() as stack:

        def start(nodes: int = 3, **options: Any) -> Cluster:
            """Start a cluster that ends with the test."""
            cluster = stack.enter_context(Cluster(nodes, **options))
            clusters.append(cluster)
            return cluster

        yield start


@pytest.fixture
def raftlog_cluster(raftlog_cluster_factory: Callable[..., Cluster]) -> Cluster:
    """Return a cluster of three running brokers."""
    return raftlog_cluster_factory(3)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs of the brokers to the report of a test that failed."""
    report = yield
    if report.failed and report.when == "call":
        for cluster in _clusters_of(item):
            for number, text in cluster.logs().items():
                report.sections.append((f"log of raftlog node {number}", text[-LOG_SHOWN_CHARACTERS:]))
    return report


def _clusters_of(item: pytest.Item) -> list[Cluster]:
    """Return the clusters that a test started, and those that its fixtures returned."""
    given = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, Cluster)]
    return list(dict.fromkeys([*item.stash.get(_started, []), *given]))
