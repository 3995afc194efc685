"""Progress of a Spark job, reported while it runs.

Called by `jobs` and by every job that runs DataFrame actions for a user (`report_jobs`). The numbers come from Spark's
status tracker: completed tasks and known tasks, whose number grows when an action starts further jobs.
`0 ≤ done ≤ total`."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from raftlog.pipeline.failures import convert_spark_errors

REPORT_INTERVAL_S: Final = 0.5
_GROUP: Final = "spark.jobGroup.id"
_DESCRIPTION: Final = "spark.job.description"


class Progress(NamedTuple):
    """Progress of a job: `done` of `total` units."""

    what: str
    done: int
    total: int
    unit: str = "tasks"


OnProgress = Callable[[Progress], None]
"""Callback that runs in its own thread, and must not raise."""


@contextmanager
def report_jobs(
    spark: SparkSession, label: str, on_progress: OnProgress | None = None, *, total: int | None = None
) -> Iterator[None]:
    """Run the Spark jobs of a block as one group; call `on_progress` at most twice a second.

    `total` is the number of tasks, None if it is not known beforehand. Raises `PipelineFailed` for Spark's errors."""
    context = spark.sparkContext
    group = f"raftlog-{uuid.uuid4()}"
    before = context.getLocalProperty(_GROUP), context.getLocalProperty(_DESCRIPTION)
    context.setJobGroup(group, label)
    has_ended = threading.Event()
    reporter = None
    if on_progress is not None:
        on_progress(Progress(label, 0, total or 0))
        arguments = (context, group, label, total, on_progress, has_ended)
        reporter = threading.Thread(target=_report_until_over, args=arguments, name=f"progress of {label}", daemon=True)
        reporter.start()
    try:
        with convert_spark_errors(label):
            yield
    finally:
        has_ended.set()
        if reporter is not None:
            reporter.join()
        context.setLocalProperty(_GROUP, before[0])  # type: ignore[arg-type]  # None takes it away
        context.setLocalProperty(_DESCRIPTION, before[1])  # type: ignore[arg-type]
    if on_progress is not None:
        _, known = count_tasks(context, group)
        every = total if total is not None else known
        on_progress(Progress(label, every, every))


def count_tasks(context: SparkContext, group: str) -> tuple[int, int]:
    """Return the numbers of completed and of all tasks of a job group that Spark reports."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)


def _report_until_over(
    context: SparkContext,
    group: str,
    label: str,
    total: int | None,
    on_progress: OnProgress,
    has_ended: threading.Event,
) -> None:
    """Call `on_progress` whenever the numbers of tasks have changed, until `has_ended` is set."""
    reported = (0, total or 0)
    while not has_ended.wait(REPORT_INTERVAL_S):
        try:
            done, known = count_tasks(context, group)
        except Py4JError:  # the session was stopped, which the job's thread reports
            return
        every = max(known, total or 0)
        if (done, every) != reported:
            reported = (done, every)
            on_progress(Progress(label, *reported))
