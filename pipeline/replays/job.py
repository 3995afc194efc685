"""Job `replay`: writes the rows of an archive to topics, each once, also after a restart of the job.

Each topic is replayed separately, step by step (`rounds`). A task reads the rows of one archived partition in a step,
in order of offset, and passes those that match the filter to the sink, with the topic's write id and the step as the
epoch. In every step the number of a Spark partition is that of the archived partition, because it is part of the write
identity."""

import hashlib
import json
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.functions import count, lit

from raftlog.client import BrokerAddresses, BrokerClient
from raftlog.errors import InvalidArgument, UnknownTopic
from raftlog.pipeline.archives.files import Files, files_at
from raftlog.pipeline.archives.jobs import shift_progress
from raftlog.pipeline.archives.reader import files_of
from raftlog.pipeline.archives.state import ArchiveState, read_settled, read_state_at
from raftlog.pipeline.brokers.connection import BrokerConnection, parse_addresses, refresh_addresses, with_retries
from raftlog.pipeline.brokers.plan import list_partitions
from raftlog.pipeline.brokers.source import RaftlogDataSource
from raftlog.pipeline.options import TopicChoice, connection_options
from raftlog.pipeline.progress import OnProgress, report_jobs
from raftlog.pipeline.replays.rounds import (
    NO_STEP,
    STEP_OFFSETS,
    Range,
    ReplayRecord,
    Round,
    current_round,
    divide_into_steps,
    newly_covered_ranges,
)
from raftlog.pipeline.replays.steps import read_step
from raftlog.pipeline.sink.writers import recorded_epoch

OUTAGE_S_MAX: Final = 60.0
"""Timeout while brokers cannot return the progress of a replay."""
NAME_CHARS_MAX: Final = 100

T = TypeVar("T")


class TopicReplayed(NamedTuple):
    """Result for one topic: this run wrote `rows` rows to the topic `target`; 0 if all had been written before.

    The sink records the write under `write_id`."""

    topic: str
    target: str
    write_id: str
    steps: int
    rows: int


@dataclass(frozen=True)
class ReplayReport:
    """Result of one run of `replay`; a later run with the same `name` continues it."""

    path: str
    name: str | None
    topics: tuple[TopicReplayed, ...]

    @property
    def rows(self) -> int:
        return sum(topic.rows for topic in self.topics)

    def as_json(self) -> dict[str, object]:
        """Return the report as a JSON object."""
        topics = [topic._asdict() for topic in self.topics]
        return {"path": self.path, "name": self.name, "rows": self.rows, "topics": topics}


def replay(
    spark: SparkSession,
    path: str,
    bootstrap: str | BrokerAddresses,
    *,
    topics: Sequence[str] | None = None,
    to: str | Mapping[str, str] | None = None,
    keep_partitions: bool = True,
    where: str | None = None,
    records_per_second: float | None = None,
    name: str | None = None,
    again: bool = False,
    on_progress: OnProgress | None = None,
) -> ReplayReport:
    """Write the rows of the archive `path` to topics, each once, with their timestamps, keys and headers.

    `to` is one topic for all rows, or new names by old ones; topics keep their names otherwise, and have to exist.
    `where` is a condition in SQL on the columns of the data sources, such as `timestamp >= '2026-01-01'`. Without
    `keep_partitions` rows are partitioned by their keys. A replay that is repeated with the same archive, topics,
    `where` and `keep_partitions` continues after the last complete step, and then writes records that were archived
    since; rows that were written are not written again. Its progress is stored in committed offsets of the groups
    `raftlog-replay.…` and `raftlog-sink.…`, which expire a week after the last step. `again` writes all rows again
    under a new name; a `name` identifies a replay explicitly.

    Raises `InvalidArgument`, `UnknownTopic`, `NotAnArchive`, `ArchiveDamaged`, `WriteForgotten`,
    `VersionConflict`, `PipelineFailed`."""
    if records_per_second is not None and records_per_second <= 0:
        raise InvalidArgument("records_per_second has to be above 0")
    if again and name is not None:
        raise InvalidArgument("a name continues an earlier replay; leave it out to write everything again")
    if name is not None and (not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable() or "/" in name):
        raise InvalidArgument(f"a name has 1 to {NAME_CHARS_MAX} printable characters, and no slash")
    topics = TopicChoice.from_arguments(topics).names
    files = files_at(path)
    state = read_settled(files)
    files_of(files, state, topics)
    wanted = sorted({place.topic for place in state.covered} if topics is None else set(topics))
    targets = _map_targets(wanted, to)
    if again:
        name = uuid.uuid4().hex
    addresses = parse_addresses(bootstrap)
    ids = _read_target_ids(addresses, state, targets, keep_partitions=keep_partitions)
    spark.dataSource.register(RaftlogDataSource)
    with BrokerConnection(addresses) as brokers:
        brokers.ask(refresh_addresses)
        context = _ReplayContext(
            spark, brokers, addresses, files, where, keep_partitions, records_per_second, on_progress
        )
        replayed = []
        for topic, target in targets.items():
            write_id = context.make_write_id(name, [state.archive_id, topic, ids[topic]])
            replayed.append(_TopicReplay(context, topic, target, write_id).run(state))
    return ReplayReport(files.uri, name, tuple(replayed))


def _map_targets(topics: Sequence[str], to: str | Mapping[str, str] | None) -> dict[str, str]:
    """Return the target topic of each topic. Raises `UnknownTopic`."""
    if to is None or isinstance(to, str):
        return {topic: to or topic for topic in topics}
    unknown = sorted(set(to) - set(topics))
    if unknown:
        raise UnknownTopic(f"topic {unknown[0]} is not among those that are replayed: {', '.join(topics)}")
    return {topic: to.get(topic, topic) for topic in topics}


def _read_target_ids(
    addresses: Sequence[str], state: ArchiveState, targets: Mapping[str, str], *, keep_partitions: bool
) -> dict[str, str]:
    """Return the id of each target topic.

    Raises `UnknownTopic`, and `InvalidArgument` if a target topic has too few partitions."""
    ids = {}
    for topic, target in targets.items():
        wanted = _count_partitions(state, topic)
        try:
            there = list_partitions(addresses, TopicChoice(names=(target,))).logs
        except UnknownTopic as error:
            raise UnknownTopic(
                f"{error}; a replay creates no topics: raftlog topic create {target} --partitions {wanted}"
            ) from None
        if keep_partitions and len(there) < wanted:
            raise InvalidArgument(
                f"topic {target} has {len(there)} partitions, and {topic} had {wanted}; make a topic with {wanted}, or "
                "let rows go by their keys (keep_partitions=False, --spread)"
            )
        ids[topic] = there[0].topic_id
    return ids


def _count_partitions(state: ArchiveState, topic: str) -> int:
    """Return the number of partitions of a topic: one more than its highest archived partition."""
    return 1 + max(place.partition for place in state.covered if place.topic == topic)


@dataclass(frozen=True)
class _ReplayContext:
    """Values that the replays of all topics share."""

    spark: SparkSession
    brokers: BrokerConnection
    addresses: Sequence[str]
    files: Files
    where: str | None
    keep_partitions: bool
    records_per_second: float | None
    on_progress: OnProgress | None

    @property
    def options_digest(self) -> str:
        """Digest of the options that must not change when a replay continues."""
        return _digest([self.where, self.keep_partitions])

    def make_write_id(self, name: str | None, topics: Sequence[str]) -> str:
        """Return the id under which the sink records the write of `topics`.

        It includes a digest of the options, except in a named replay, whose record has this digest."""
        return f"{name}-{_digest(topics)}" if name is not None else f"replay-{_digest([*topics, self.options_digest])}"


class _TopicReplay:
    """Replay of one topic of the archive to its target topic."""

    def __init__(self, context: _ReplayContext, topic: str, target: str, write_id: str) -> None:
        """Prepare to replay one topic into `target`; `write_id` names the write that later runs continue."""
        self._context, self._topic, self._target, self._write_id = context, topic, target, write_id
        self._record = ReplayRecord(write_id, target, context.options_digest)

    def run(self, state: ArchiveState) -> TopicReplayed:
        """Write the rows of the archive that are not written yet. Raises the errors of `replay`."""
        recorded = recorded_epoch(self._context.addresses, self._write_id)
        done = NO_STEP if recorded is None else recorded
        now = current_round(state, self._ask(self._record.read), done, STEP_OFFSETS)
        tasks = _count_partitions(state, self._topic)
        steps, rows = 0, 0
        while True:
            of_round = self._plan_steps(now)
            first = max(0, done + 1 - now.epoch)
            for number, ranges in enumerate(of_round[first:], first):
                shifted_progress = shift_progress(self._context.on_progress, number * tasks, len(of_round) * tasks)
                rows += self._write_step(now, now.epoch + number, ranges, tasks, shifted_progress)
                steps += 1
            if now.upto == state.number:
                return TopicReplayed(self._topic, self._target, self._write_id, steps, rows)
            now = now.next(state.number, len(of_round))

    def _plan_steps(self, now: Round) -> list[list[Range]]:
        """Return the ranges of each step of a round."""
        files = self._context.files
        before = None if now.is_first else read_state_at(files, now.after).covered
        return divide_into_steps(
            newly_covered_ranges(self._topic, read_state_at(files, now.upto).covered, before), now.step_offsets
        )

    def _write_step(
        self, now: Round, epoch: int, ranges: Sequence[Range], tasks: int, shifted_progress: OnProgress | None
    ) -> int:
        """Write one step; return its number of rows."""
        rows = self._read_rows(ranges, tasks)
        self._ask(lambda client: self._record.write(client, now, epoch))
        written = Observation()
        options = {
            **connection_options(self._context.addresses),
            "topic": self._target,
            "writeId": self._write_id,
            "writeEpoch": str(epoch),
        }
        if self._context.records_per_second is not None:
            at_once = min(len(ranges), self._context.spark.sparkContext.defaultParallelism)
            options["recordsPerSecondPerTask"] = str(self._context.records_per_second / at_once)
        counted = rows.observe(written, count(lit(1)).alias("rows"))
        with report_jobs(self._context.spark, f"replaying {self._topic}", shifted_progress):
            counted.write.format("raftlog").options(**options).mode("append").save()
        return int(written.get["rows"])

    def _read_rows(self, ranges: Sequence[Range], tasks: int) -> DataFrame:
        """Return the rows of these ranges that meet the condition. Raises `InvalidArgument` for a wrong condition."""
        rows = read_step(self._context.spark, self._context.files.uri, self._topic, ranges, tasks)
        if self._context.where is not None:
            try:
                rows = rows.where(self._context.where)
            except (AnalysisException, ParseException) as error:
                raise InvalidArgument(f"the condition {self._context.where} cannot be used: {error}") from error
        return rows.drop("topic") if self._context.keep_partitions else rows.drop("topic", "partition")

    def _ask(self, question: Callable[[BrokerClient], Coroutine[Any, Any, T]]) -> T:
        """Return the result of a request, repeated for `OUTAGE_S_MAX` while brokers do not answer."""
        return self._context.brokers.ask(lambda client: with_retries(lambda: question(client), OUTAGE_S_MAX))


def _digest(values: Sequence[object]) -> str:
    """Return the first 24 hex digits of the SHA-256 of the values as JSON."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:24]
