"""Spark session in this process's JVM, set up for raftlog; programs may use their own session instead.

Called by users' programs, by `raftlog pipeline`, the tests and the benchmarks. Workers run this interpreter, regardless
of PYSPARK_PYTHON, unless the master is on another machine. With a local master nothing listens beyond loopback.
The JVM runs until the end of the process, also after `stop()`. So its settings (memory, Java options) are those of the
first session in the process."""

import logging
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from raftlog.pipeline.brokers.source import RaftlogDataSource
from raftlog.pipeline.failures import convert_spark_errors
from raftlog.pipeline.requirements import check_java, check_packages
from raftlog.pipeline.segments.source import RaftlogSegmentsDataSource

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
_START_WARNING: Final = b"WARNING: Using incubator modules"
"""Start of the JVM's warning about an option of Spark's launcher, which cannot be turned off."""
_LOGGERS_OF_RAISED_ERRORS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def local_session(app: str = "raftlog", master: str = "local[*]", config: Mapping[str, str] = {}) -> SparkSession:
    """Return a session in UTC with both data sources and no web page or progress bar; `config` overrides.

    If the process already has a session, this session is returned, with those settings of `config` that Spark can still
    change. Raises `MissingRequirement` if a package or a suitable Java is missing, and `PipelineFailed` if Spark does
    not start because the master or a setting is wrong; then Java has written details to stderr."""
    check_packages()
    check_java()
    is_local = master.startswith("local")
    choose_interpreter(is_local)
    conf = SparkConf(loadDefaults=False).setMaster(master).setAppName(app)
    for name, value in settings(config, is_local).items():
        conf.set(name, value)
    with convert_spark_errors(f"Spark did not start with master {master}"):
        if SparkContext._active_spark_context is None:
            SparkContext(conf=conf, gateway=_find_or_start_gateway(conf))
        spark = SparkSession.builder.config(conf=conf).getOrCreate()
    _activate(spark)
    register_sources(spark)
    silence_query_loggers()
    return spark


def settings(config: Mapping[str, str], is_local: bool) -> dict[str, str]:
    """Return the settings of a new Spark session: defaults, overridden by `config`; Java options are joined."""
    chosen = {**SETTINGS, **(LOCAL_SETTINGS if is_local else {}), **config}
    quiet = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"
    chosen[_JAVA_OPTIONS] = " ".join(filter(None, (quiet, config.get(_JAVA_OPTIONS, ""))))
    return chosen


def choose_interpreter(is_local: bool) -> None:
    """Make workers use the driver's Python interpreter.

    On other machines its path may differ; there PYSPARK_PYTHON names the interpreter."""
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def silence_query_loggers() -> None:
    """Silence the loggers that write errors of queries with the JVM's stack trace; pyspark raises these errors."""
    for name in _LOGGERS_OF_RAISED_ERRORS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def register_sources(spark: SparkSession) -> None:
    """Register the data sources `raftlog` and `raftlog-segments` with `spark.read.format`."""
    spark.dataSource.register(RaftlogDataSource)
    spark.dataSource.register(RaftlogSegmentsDataSource)


def _activate(spark: SparkSession) -> None:
    """Make the session active in the JVM for all threads.

    Python's data sources are looked up in the active session of a thread, which Spark sets only in the thread that
    created the session; without this, another thread that uses the session could not write."""
    assert spark._jvm is not None, "a session without a JVM"
    SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)


def _find_or_start_gateway(conf: SparkConf) -> JavaGateway:
    """Return the gateway to this process's JVM; start it if necessary, with filtered stderr."""
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return SparkContext._gateway or launch_gateway(conf)  # type: ignore[no-untyped-call]
    reading, writing = os.pipe()
    try:
        threading.Thread(target=_relay_stderr, args=(reading,), name="stderr of Spark", daemon=True).start()
        return launch_gateway(conf, {"stderr": writing})  # type: ignore[no-untyped-call]
    finally:
        os.close(writing)


def _relay_stderr(reading: int) -> None:
    """Copy the stderr of the JVM and its workers, without start-up warnings, until all of them have ended."""
    with open(reading, "rb") as lines:
        for line in lines:
            if not line.startswith(_START_WARNING):
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()
