"""An executor lost, its JVM killed by SIGKILL, during a read and during a write.

Spark repeats its tasks on others, and each record is read and written once. In local-cluster mode, where
executors are processes."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pyspark
import pytest

from tests.pipeline.spark.conftest import NewTopic
from tests.pipeline.spark.test_driver_killed import COUNT, PARTITIONS, fill
from tests.pipeline.stored_records import stored_numbers

WAIT_S = 300
DRIVER = """
import json
import os
import sys
from pathlib import Path

from pyspark.sql.functions import udf

from raftlog.pipeline import local_session

bootstrap, source, sink, place = sys.argv[1:5]

def dying(name, at):
    "Whoever comes to the value first tells the id of its executor's process, and waits to be killed with it."
    place = Path(sys.argv[4])

    @udf("binary", useArrow=False)
    def pause(value):
        if int(value) == at:
            try:
                open(place / f"{name}-begun", "x").close()
            except FileExistsError:
                return value
            executor = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
            (place / name).write_text(executor + "\\n")
            (place / "never-written").read_text()
        return value

    return pause

spark = local_session("lost", "local-cluster[2,1,1024]", {
    "spark.driver.memory": "768m",
    "spark.executor.memory": "768m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200",
    "spark.sql.shuffle.partitions": "2",
    "spark.local.dir": place,
    "spark.sql.warehouse.dir": place + "/warehouse",
})
rows = (
    spark.read.format("raftlog").option("bootstrap", bootstrap).option("topics", source)
    .option("minPartitions", "6").load()
)
seen = rows.withColumn("value", dying("read", int(sys.argv[5]))("value")).groupBy("partition", "offset", "value")
times = seen.count().selectExpr("count(*)", "sum(count)", "max(count)", "sum(cast(cast(value as string) as bigint))")
print(json.dumps(list(times.first())), flush=True)
written = rows.withColumn("value", dying("write", int(sys.argv[6]))("value")).select("key", "value")
written.write.format("raftlog").mode("append").option("bootstrap", bootstrap).option("topic", sink).option(
    "batchBytes", "2k").save()
print("written", flush=True)
"""

pytestmark = pytest.mark.slow


def test_a_lost_executor_loses_and_duplicates_no_record(bootstrap: str, new_topic: NewTopic, tmp_path: Path) -> None:
    source, sink = new_topic(PARTITIONS), new_topic(PARTITIONS)
    fill(bootstrap, source)
    for name in ("read", "write", "never-written"):
        os.mkfifo(tmp_path / name)
    environment = os.environ | {"SPARK_HOME": str(make_spark_home(tmp_path))}
    arguments = [bootstrap, source, sink, str(tmp_path), str(COUNT * 2 // 3), str(COUNT // 3)]
    command = [sys.executable, "-c", DRIVER, *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as driver:
        watchdog = threading.Timer(2 * WAIT_S, driver.kill)
        watchdog.start()
        try:
            assert driver.stdout is not None
            kill_announced_process(tmp_path / "read")
            assert json.loads(driver.stdout.readline()) == [COUNT, COUNT, 1, COUNT * (COUNT - 1) // 2]
            kill_announced_process(tmp_path / "write")
            assert driver.stdout.readline() == "written\n"
        finally:
            watchdog.cancel()
            driver.kill()
    found = asyncio.run(stored_numbers(bootstrap.split(","), sink))
    missing, doubled = Counter(range(COUNT)) - found, found - Counter(range(COUNT))
    assert (sorted(missing), sorted(doubled)) == ([], [])


def make_spark_home(directory: Path) -> Path:
    """Create a Spark home of links, below which executors work."""
    home = directory / "home"
    home.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    return home


def kill_announced_process(fifo: Path) -> None:
    """Kill the process whose id arrives through the pipe."""
    told = os.open(fifo, os.O_RDWR)  # for writing too, so that it opens before a writer does
    try:
        assert select.select([told], [], [], WAIT_S)[0], "no executor came to the value"
        os.kill(int(os.read(told, 64)), signal.SIGKILL)
    finally:
        os.close(told)
