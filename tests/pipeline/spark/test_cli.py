"""`raftlog pipeline …` as a process: its output, and its end by Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from raftlog.pipeline import Brokers, archive, read_archive, replay
from raftlog.testing import Cluster
from raftlog.testing.http import ask
from tests.pipeline.spark.conftest import NewTopic
from tests.waiting import block_until

RECORDS = 60
VALUE_CHARACTERS = 200_000
"""A few of them fill a batch."""
NUMBER = "substring_index(CAST(value AS string), ' ', 1)"
RECORDS_PER_SECOND = 6
SECONDS_MAX = 300


def end_offset(cluster: Cluster, topic: str) -> int:
    _, found = ask(cluster.addresses[0], f"/topics/{topic}/partitions/0/offsets")
    return int(found["end_offset"])


def wait_for_written_records(cluster: Cluster, topic: str, writer: "subprocess.Popen[bytes]") -> None:
    block_until(lambda: writer.poll() is not None or end_offset(cluster, topic), within_s=SECONDS_MAX)
    assert writer.poll() is None, writer.communicate()


def has_processes(group: int) -> bool:
    """Return whether the process group still has processes."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_replay_continues_after_ctrl_c_and_a_restart(
    spark: SparkSession, cluster: Cluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(), new_topic()
    records = [{"value": f"{number} {'.' * VALUE_CHARACTERS}"} for number in range(RECORDS)]
    status, answer = ask(cluster.addresses[0], f"/topics/{source}", method="POST", body={"records": records})
    assert status == 200, answer
    lake = str(tmp_path / "lake")
    assert archive(spark, Brokers(cluster.bootstrap), lake, topics=[source]).rows == RECORDS

    flags = ("--to", target, "--bootstrap", cluster.bootstrap, "--master", "local[2]")
    command = [sys.executable, "-m", "raftlog.cli", "pipeline", "replay", lake, *flags]
    with subprocess.Popen(
        [*command, "--records-per-second", str(RECORDS_PER_SECOND)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            wait_for_written_records(cluster, target, process)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
            out, err = process.communicate(timeout=SECONDS_MAX)
            assert (process.returncode, out) == (1, b"")
            assert "starting Spark" in err.decode().splitlines()
            assert err.decode().splitlines()[-1] == "error: interrupted"
            block_until(
                lambda: not has_processes(process.pid),
                lambda: "the end of the JVM and of the workers",
                within_s=SECONDS_MAX,
            )
        finally:
            if has_processes(process.pid):
                os.killpg(process.pid, signal.SIGKILL)
    assert 0 < end_offset(cluster, target) < RECORDS

    replay(spark, lake, cluster.bootstrap, to=target)
    again = spark.read.format("raftlog").option("bootstrap", cluster.bootstrap).option("topics", target).load()
    numbers = [[row[0] for row in rows.selectExpr(NUMBER).collect()] for rows in (read_archive(spark, lake), again)]
    assert sorted(numbers[0]) == sorted(numbers[1])
    assert len(set(numbers[1])) == RECORDS
