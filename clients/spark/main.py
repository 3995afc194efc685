"""Check of Spark's own Kafka source and sink: batch TOPIC | load TOPIC; uses BOOTSTRAP and JARS.

TOPIC and TOPIC-copy must exist. `load` runs two streams, numbers → TOPIC → TOPIC-copy, prints `started`, and stops the
streams when stdin ends. Then every number must be in both topics; the sink writes at least once, so some may be there
twice."""

import os
import sys
import tempfile
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

ROWS = 20_000
PER_S = 200
SERVERS = {"kafka.bootstrap.servers": os.environ["BOOTSTRAP"]}


def require(is_true: bool, problem: str) -> None:
    """Exit with the problem unless the condition holds."""
    if not is_true:
        sys.exit(problem)


def session() -> Any:
    """Start Spark in this process, and return the session."""
    jars = ",".join(map(str, Path(os.environ["JARS"]).glob("*.jar")))
    builder = import_module("pyspark.sql").SparkSession.builder.master("local[2]").config("spark.jars", jars)
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4", "spark.log.level": "ERROR"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def read_numbers(spark: Any, topic: str) -> list[int]:
    """Return a topic's values as numbers."""
    rows = spark.read.format("kafka").options(**SERVERS, subscribe=topic, startingOffsets="earliest").load()
    return [int(row.value) for row in rows.selectExpr("CAST(value AS STRING) AS value").collect()]


def batch(spark: Any, topic: str) -> str:
    """Check batch writes and reads: keys, headers, and offsets by time."""
    rows = spark.range(ROWS).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    rows.write.format("kafka").options(**SERVERS, topic=topic).save()
    read = spark.read.format("kafka").options(**SERVERS, subscribe=topic, includeHeaders="true").load()
    require(read.count() == ROWS, f"{read.count()} of {ROWS} rows")
    found = read.selectExpr("CAST(key AS STRING) = CAST(value AS STRING) AS same", "partition", "offset")
    require(found.where("same").count() == ROWS, "keys and values differ")
    require(found.select("partition", "offset").distinct().count() == ROWS, "offsets are not different")
    later = {"startingTimestamp": "1", "endingOffsets": "latest", "subscribe": topic}
    require(spark.read.format("kafka").options(**SERVERS, **later).load().count() == ROWS, "offsets by time")
    return f"{ROWS} rows written and read"


def wait_for_end(ended: threading.Event) -> None:
    """Wait for the end of stdin, then set `ended`."""
    sys.stdin.read()
    ended.set()


def load(spark: Any, topic: str) -> str:
    """Run two streams until the end of stdin, and check their results."""
    with tempfile.TemporaryDirectory() as checkpoints:
        made = spark.readStream.format("rate").option("rowsPerSecond", PER_S).load()
        source = made.selectExpr("CAST(value AS STRING) AS key", "CAST(value AS STRING) AS value").writeStream
        first = source.format("kafka").options(**SERVERS, topic=topic, checkpointLocation=f"{checkpoints}/1").start()
        options = {**SERVERS, "subscribe": topic, "startingOffsets": "earliest"}
        copied = spark.readStream.format("kafka").options(**options).load().select("key", "value").writeStream
        target = {"topic": f"{topic}-copy", "checkpointLocation": f"{checkpoints}/2"}
        second = copied.format("kafka").options(**SERVERS, **target).start()
        ended = threading.Event()
        threading.Thread(target=wait_for_end, args=(ended,), daemon=True).start()
        is_started = False
        while not ended.wait(0.5):
            for query in (first, second):
                require(query.exception() is None, f"a stream ended: {query.exception()}")
            if not is_started and (second.lastProgress or {}).get("numInputRows"):
                is_started = True
                print("started", flush=True)
        first.stop()
        second.processAllAvailable()
        second.stop()
    written, copied_numbers = read_numbers(spark, topic), read_numbers(spark, f"{topic}-copy")
    require(set(written) == set(range(len(set(written)))), "numbers are missing in the first topic")
    require(set(copied_numbers) >= set(written), f"{len(set(written) - set(copied_numbers))} numbers were not copied")
    twice = len(written) - len(set(written)) + len(copied_numbers) - len(set(copied_numbers))
    return f"{len(set(written))} numbers through two topics, {twice} of them written twice"


if __name__ == "__main__":
    print({"batch": batch, "load": load}[sys.argv[1]](session(), sys.argv[2]), flush=True)
