"""One Spark session and one cluster of three brokers for all tests of this directory.

A JVM takes seconds to start and a good part of a core, so these tests run in one process of their own, after the
others: `pytest -m 'spark and not slow' tests/pipeline/spark`, which `make test` does.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from raftlog.pipeline import local_session
from raftlog.testing import Cluster
from raftlog.testing.http import ask

HERE = Path(__file__).parent
FOR_TESTS = {
    "spark.driver.memory": "768m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Little memory, and no time spent on compiling what runs once."""

NewTopic = Callable[..., str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start the session; tests reset the options that they set."""
    directory = tmp_path_factory.mktemp("spark")
    places = {"spark.local.dir": str(directory), "spark.sql.warehouse.dir": str(directory / "warehouse")}
    session = local_session("tests", "local[2]", FOR_TESTS | places)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def cluster(running_cluster: Cluster) -> Cluster:
    """Return three healthy brokers without effects of earlier tests."""
    running_cluster.heal()
    for node in running_cluster.nodes.values():
        if not node.is_running:
            node.launch()
        node.resume()
    running_cluster.wait_ready()
    running_cluster.wait_healthy()
    return running_cluster


@pytest.fixture
def bootstrap(cluster: Cluster) -> str:
    """Return the value of the option `bootstrap`."""
    return cluster.bootstrap


@pytest.fixture
def new_topic(request: pytest.FixtureRequest, cluster: Cluster) -> NewTopic:
    """Return `new_topic(partitions=1, replication_factor=3, **configs)`, which creates a topic for one test."""
    test = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:60]
    numbers = itertools.count(1)

    def make(partitions: int = 1, replication_factor: int = 3, **configs: str) -> str:
        name = f"{test}-{next(numbers)}"
        wanted = {
            "topic_name": name,
            "partitions_count": partitions,
            "replication_factor": replication_factor,
            "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
        }
        status, answer = ask(cluster.addresses[0], "/v3/clusters/-/topics", method="POST", body=wanted)
        assert status == 201, answer
        for partition in range(partitions):
            cluster.leader(name, partition)
        return name

    return make
