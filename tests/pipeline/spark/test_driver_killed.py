"""A streaming driver killed by SIGKILL during micro-batches and restarted; tasks repeated by Spark.

In the end each record is there once."""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from raftlog.client import BrokerClient
from raftlog.pipeline.sink.attempt import write_rows
from raftlog.pipeline.sink.columns import Columns
from raftlog.pipeline.sink.identity import WriteIdentity
from raftlog.pipeline.sink.settings import SinkSettings
from tests.pipeline.spark.conftest import NewTopic
from tests.pipeline.stored_records import stored_numbers
from tests.waiting import until_async

COUNT = 20_000
PARTITIONS = 3
KILLS = (COUNT // 5, COUNT // 2)
"""At so many records in the sink."""
DRIVER_S_MAX = 300.0
DRIVER = """
import sys
from pathlib import Path

from pyspark.sql.functions import udf

from raftlog.pipeline import local_session

bootstrap, source, sink, checkpoint = sys.argv[1:]
flags = Path(checkpoint + "-flags")
flags.mkdir(exist_ok=True)

spark = local_session("killed", "local[2,4]", {
    "spark.driver.memory": "768m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200",
    "spark.sql.shuffle.partitions": "3",
})

@udf("binary", useArrow=False)
def fragile(value):
    if int(value) % 4_500 == 0:
        flag = flags / str(int(value))
        if not flag.exists():
            flag.touch()
            raise RuntimeError("a task dies once at each of these")
    return value

rows = (
    spark.readStream.format("raftlog").option("bootstrap", bootstrap).option("topics", source)
    .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "5000").load()
)
changed = rows.select("key", "value").repartition(3, "key").select("key", fragile("value").alias("value"))
query = (
    changed.writeStream.format("raftlog").option("bootstrap", bootstrap).option("topic", sink)
    .option("batchBytes", "2k").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
)
query.awaitTermination()
"""

pytestmark = pytest.mark.slow


def test_a_stream_whose_driver_is_killed_writes_each_record_once(
    bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, sink = new_topic(PARTITIONS), new_topic(PARTITIONS)
    fill(bootstrap, source)
    for kill_at in (*KILLS, None):
        command = [sys.executable, "-c", DRIVER, bootstrap, source, sink, str(tmp_path / "checkpoint")]
        with subprocess.Popen(command) as driver:
            try:
                asyncio.run(wait_for_records(bootstrap, sink, kill_at, driver))
            finally:
                driver.kill()
            code = driver.wait()
        assert code == (0 if kill_at is None else -signal.SIGKILL)
    assert asyncio.run(stored_numbers(bootstrap.split(","), sink)) == Counter(range(COUNT))


def fill(bootstrap: str, topic: str) -> None:
    numbers = [b"%d" % number for number in range(COUNT)]
    rows = pa.record_batch({"key": pa.array(numbers, pa.binary()), "value": pa.array(numbers, pa.binary())})
    settings = SinkSettings(tuple(bootstrap.split(",")), topic=topic)
    write_rows([rows], Columns(key=0, value=1), settings, WriteIdentity("fill", 0, 0), "run")


async def wait_for_records(bootstrap: str, topic: str, count: int | None, driver: "subprocess.Popen[bytes]") -> None:
    """Wait until the topic has `count` records, or, for None, until the driver has exited."""
    async with BrokerClient(bootstrap.split(",")) as client:

        async def are_there() -> bool:
            ends = [(await client.offsets(topic, partition)).end for partition in range(PARTITIONS)]
            return driver.poll() is not None or (count is not None and sum(ends) >= count)

        await until_async(are_there, within_s=DRIVER_S_MAX)
