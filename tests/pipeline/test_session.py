"""Options that start a session, and messages of a failed start, without Spark."""

import os
import sys
from typing import NoReturn

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.logger import PySparkLogger

from raftlog.pipeline.errors import PipelineFailed
from raftlog.pipeline.failures import CHARACTERS_MAX, convert_spark_errors, extract_reason
from raftlog.pipeline.session import choose_interpreter, local_session, settings, silence_query_loggers

WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/lib/pyspark/worker.py", line 4327, in invoke_udf
    run_process()
    ^^^^^^^^^^^^^
  File "/lib/raftlog/pipeline/segments/reader.py", line 10, in read
    raise CorruptBatch("/a/b", 4, 5, "its CRC does not match")
{raised}
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1097)
"""


def test_settings_of_the_caller_take_precedence_and_java_options_are_joined() -> None:
    chosen = settings({"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}, True)
    assert chosen["spark.ui.enabled"] == "true"
    assert chosen["spark.driver.bindAddress"] == "127.0.0.1"
    assert chosen["spark.sql.session.timeZone"] == "UTC"
    quiet, theirs = chosen["spark.driver.extraJavaOptions"].split(" ")
    assert quiet.startswith("-Dlog4j2.configurationFile=file://")
    assert os.path.isfile(quiet.partition("file://")[2])
    assert theirs == "-XX:+UseSerialGC"
    assert "spark.driver.host" not in settings({}, False)


def test_local_workers_use_this_interpreter_and_remote_ones_the_configured_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/elsewhere/python3")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/elsewhere/python3")
    choose_interpreter(is_local=False)
    assert os.environ["PYSPARK_PYTHON"] == "/elsewhere/python3"
    choose_interpreter(is_local=True)
    assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_a_failed_start_of_spark_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(*_: object) -> NoReturn:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr("raftlog.pipeline.session.launch_gateway", launch)
    monkeypatch.setattr("raftlog.pipeline.session.check_java", lambda: 17)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, sys.executable)
    with pytest.raises(PipelineFailed, match=r"^Spark did not start with master local\[7\]: \[JAVA_GATEWAY_EXITED\]"):
        local_session(master="local[7]")


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        ("raftlog.errors.CorruptBatch: /a/b: corrupt batch", "/a/b: corrupt batch"),
        ("raftlog.errors.InvalidArgument: first line\nsecond line", "first line\nsecond line"),
        ("raftlog.pipeline.errors.DataLost", "DataLost"),
        ("ValueError: 3 is not 4", "ValueError: 3 is not 4"),
        ("OSError: [Errno 28] No space left on device", "OSError: [Errno 28] No space left on device"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_the_reason_is_the_error_raised_by_the_worker(raised: str, reason: str) -> None:
    assert extract_reason(WORKER.format(raised=raised)) == reason


def test_the_last_of_several_exceptions_is_the_reason() -> None:
    first = "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'a'\n\n"
    then = "During handling of the above exception, another exception occurred:\n\n"
    assert extract_reason(first + then + WORKER.format(raised="raftlog.errors.UnknownTopic: no x")) == "no x"


@pytest.mark.parametrize(
    "told",
    [
        "[PYTHON_DATA_SOURCE_ERROR] Failed to generate Python data source read partitions: {} SQLSTATE: 38000",
        "An exception was thrown from the Python worker:\n{}",
        "Job aborted: org.apache.spark.api.python.PythonException: {}\tat org.apache.spark.X\n\tat y",
    ],
)
def test_the_reason_is_a_raftlog_error_without_its_stack(told: str) -> None:
    assert extract_reason(told.format("raftlog.errors.UnknownTopic: there is no topic 'x'; create it\n")) == (
        "there is no topic 'x'; create it"
    )


def test_java_errors_are_reported_without_the_stack_and_bounded() -> None:
    assert extract_reason("[TABLE_NOT_FOUND] no `t`. SQLSTATE: 42P01\n\tat org.apache.spark.X\n\tat y") == (
        "[TABLE_NOT_FOUND] no `t`. SQLSTATE: 42P01"
    )
    assert len(extract_reason("x" * 10_000)) == CHARACTERS_MAX
    assert len(extract_reason(WORKER.format(raised="raftlog.errors.UnknownTopic: " + "x" * 10_000))) == CHARACTERS_MAX


def test_raised_errors_are_not_logged_too(capsys: pytest.CaptureFixture[str]) -> None:
    silence_query_loggers()
    PySparkLogger.getLogger("SQLQueryContextLogger").exception("no such column", errorClass="UNRESOLVED_COLUMN")
    assert capsys.readouterr() == ("", "")


def test_errors_not_of_spark_are_not_converted() -> None:
    with pytest.raises(PipelineFailed, match="no topic"), convert_spark_errors("reading"):
        raise PipelineFailed("no topic")
    with pytest.raises(KeyError), convert_spark_errors("reading"):
        raise KeyError(1)
