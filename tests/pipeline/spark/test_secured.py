"""Source and sink with a secure cluster: TLS and a login by options, and no secret in what Spark shows."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from raftlog.client.sync import BrokerClient
from raftlog.pipeline.options import connection_options
from raftlog.testing import Cluster
from tests.pipeline.spark.test_writing import numbered_rows

COUNT = 500
TOPIC = "orders"


@pytest.fixture(scope="module")
def secure() -> Iterator[Cluster]:
    with Cluster(3, secure=True, with_cuts=False, with_gossip=False) as cluster:
        with BrokerClient(cluster.access) as client:
            client.create_topic(TOPIC, 2, 3)
        yield cluster


def write(rows: DataFrame, options: dict[str, str]) -> None:
    rows.write.format("raftlog").mode("append").options(topic=TOPIC, **options).save()


def shown_by(spark: SparkSession) -> str:
    """Return the plans of all queries so far, as Spark's SQL page shows them."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()  # type: ignore[attr-defined]
    found = [executions.apply(number) for number in range(executions.size())]
    assert found, "no query was recorded"
    return "".join(each.physicalPlanDescription() + each.details() + each.description() for each in found)


def test_source_and_sink_use_tls_and_a_login(spark: SparkSession, secure: Cluster, tmp_path: Path) -> None:
    options = connection_options(secure.access)
    assert options["bootstrap"].startswith("https://")
    write(numbered_rows(spark, COUNT), options)
    batch = spark.read.format("raftlog").options(topics=TOPIC, **options).load()
    assert batch.count() == COUNT
    stream = spark.readStream.format("raftlog").options(topics=TOPIC, startingOffsets="earliest", **options).load()
    query = (
        stream.writeStream.format("memory")
        .queryName("secured")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert spark.table("secured").count() == COUNT
    security = secure.security
    assert security is not None
    shown = [shown_by(spark), batch._jdf.queryExecution().toString(), str(query.lastProgress)]
    shown += [path.read_text(errors="replace") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert TOPIC in "".join(shown)
    for text in shown:
        assert security.password() not in text


@pytest.mark.parametrize(
    ("without", "words"), [(("ca",), "certificate is not trusted"), (("user", "passwordFile"), "requires a login")]
)
def test_a_missing_option_is_named(spark: SparkSession, secure: Cluster, without: tuple[str, ...], words: str) -> None:
    options = {name: value for name, value in connection_options(secure.access).items() if name not in without}
    with pytest.raises(PySparkException, match=words):
        spark.read.format("raftlog").options(topics=TOPIC, **options).load().count()
    with pytest.raises(PySparkException, match=words):
        write(numbered_rows(spark, 1), options)
