"""Histories judged on Spark: the same kinds, counts and reports as `raftlog.checkers` gives for the same lines."""

import resource
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from raftlog.checkers import Fetched, Op, Poll, Recorder, Send, Trim, Verdict, read_lines, write_lines
from raftlog.checkers import judge_history as judge_here
from raftlog.errors import InvalidArgument
from raftlog.pipeline import judge_history
from raftlog.pipeline.histories import HistoryVerdict, judge_histories
from raftlog.pipeline.histories.judging import problems_of
from raftlog.pipeline.histories.verdict import JUDGED, NOT_JUDGED
from raftlog.types import Offset, TopicPartition
from tests.checkers.model_log import clean_history
from tests.checkers.mutations import MUTATIONS
from tests.checkers.story import T0, Story
from tests.checkers.telling import renumbered
from tests.checkers.test_members import Tale
from tests.checkers.test_planted import malformed

SEEDS = 4
OPERATIONS = 1_000_000
MALFORMED = (
    "a completion without invocation",
    "two operations of one process",
    "time that falls",
    "a value sent twice",
    "more offsets than values",
    "more offsets than values in a poll",
    "a send of nothing",
    "a completion of another kind",
)


def generated() -> Iterator[tuple[str, list[Op]]]:
    """Clean ones, and each with everything planted that it has a place for."""
    for seed in range(SEEDS):
        history = clean_history(seed, 200)
        yield f"clean {seed}", history
        yield f"half {seed}", history[: len(history) // 2]
        for name, mutation in MUTATIONS.items():
            if (planted := mutation.plant(history, Random(seed))) is not None:
                yield f"{name} {seed}", renumbered(planted)


def corners() -> Iterator[tuple[str, list[Op]]]:
    """What the model's histories have no place for."""
    yield "nothing", []
    tale = Tale()
    for value, number, offset in ((70, 0, 0), (71, 1, 2), (72, 2, 1), (73, 4, 3)):
        tale.number(1, value, number, offset)
    tale.number(1, 74, 5, None)
    tale.poll(2, (0, 70), (1, 72), (2, 71), (3, 73), (4, "text"))
    yield "numbers out of order, one missing, and a value of text", tale.ops
    story = Story()
    story.do(1, "trim", Trim(T0, Offset(3)))
    story.list_offsets(2, 3, 9, linearizable=True)
    story.list_offsets(2, 1, 9, linearizable=True)
    yield "a trim undone", story.ops
    for outcome in ("ok", "info", "fail", "crash", "open"):
        yield f"records that are missing below a trim: {outcome}", trimmed(outcome)
    story = Story()
    for process, key, value, offset in ((1, "a", 70, 0), (1, "b", 71, 1), (1, "a", 72, 2), (1, "b", 73, 3)):
        send = Send(T0, (value,), keys=(key,), tombstones=(73,) if value == 73 else ())
        story.do(process, "send", send, send._replace(offsets=(Offset(offset),)))
    story.assign(3, 0)
    story.poll(3, (1, 71), (4, 75))
    story.poll(3, (2, 72))
    yield "keys", story.ops
    yield (
        "keys, skipped before anybody knew that they are compacted",
        renumbered([*story.ops[8:10], *story.ops[:2], *story.ops[10:]]),
    )
    tale = Tale()
    tale.join(1, "m1", 1, T0)
    tale.join(2, "m2", 1, T0)
    tale.commit_as(1, 5)
    tale.commit_as(1, 3)
    tale.committed(3, 3)
    yield "members", tale.ops
    story = Story()
    for value in range(150):
        story.send(1, value, 0)
    yield "more than are kept", story.ops


def trimmed(outcome: str) -> list[Op]:
    """Of four records the first and the third were never polled; deletions up to the third end so."""
    story = Story()
    for number in range(4):
        story.send(1, 70 + number, number)
    asking = story.recorder.invoke(2, "trim", Trim(T0, Offset(3)))
    if outcome == "ok":
        story.recorder.ok(asking, Trim(T0, Offset(1)))
    elif outcome == "crash":
        story.recorder.crash(2)
    elif outcome != "open":
        getattr(story.recorder, outcome)(asking)
    story.poll(3, (1, 71))
    story.poll(4, (3, 73))
    return story.ops


def write(directory: Path, histories: Iterable[tuple[str, list[Op]]]) -> dict[str, str]:
    paths = {}
    for name, history in histories:
        path = directory / f"{len(paths)}.jsonl"
        path.write_bytes(b"".join(write_lines(history)))
        paths[name] = str(path)
    return paths


def judged_here(path: str) -> Verdict:
    with open(path, "rb") as lines:
        return judge_here(read_lines(lines))


def differences(verdict: HistoryVerdict, expected: Verdict) -> list[object]:
    """In counts, operations, and reports of kinds that are looked for and of which all are kept."""
    counts = {kind: count for kind, count in expected.counts.items() if kind in JUDGED}
    kept = {kind for kind, count in counts.items() if count <= 100}
    reports = {str(anomaly) for anomaly in expected.anomalies if anomaly.kind in kept}
    shown = {str(anomaly) for anomaly in verdict.anomalies if anomaly.kind in kept}
    found: list[object] = sorted(reports ^ shown)
    if verdict.counts != counts or verdict.operations != expected.operations:
        found.append((verdict.counts, expected.counts))
    return found


def test_generated_and_planted_histories_get_the_same_verdicts_as_from_the_checkers(
    spark: SparkSession, tmp_path: Path
) -> None:
    paths = write(tmp_path, [*generated(), *corners()])
    verdicts = judge_histories(spark, paths)
    expected = {name: judged_here(path) for name, path in paths.items()}
    assert {name: differences(verdicts[name], expected[name]) for name in paths} == {name: [] for name in paths}
    assert {kind for verdict in verdicts.values() for kind in verdict.counts} == set(JUDGED)
    assert all(verdicts[f"clean {seed}"].is_clean() for seed in range(SEEDS))
    assert verdicts["keys"].unjudged == ("lost-key", "resurrected-key")
    assert set(verdicts["members"].unjudged) < set(NOT_JUDGED)
    assert not verdicts["members"].is_clean()
    most = verdicts["more than are kept"]
    assert most.counts["inconsistent-offset"] == 149
    assert [anomaly.sequences for anomaly in most.anomalies if anomaly.kind == "inconsistent-offset"] == [
        (1, 2 * number + 1) for number in range(1, 101)
    ]


def test_histories_that_are_none_are_refused_with_file_and_line(spark: SparkSession, tmp_path: Path) -> None:
    cases = [(case, malformed(Story(), case)) for case in MALFORMED]
    paths = write(tmp_path, [("a sound one", clean_history(1, 50)), *cases])
    unread = tmp_path / "unread.jsonl"
    unread.write_bytes(b"".join(write_lines(clean_history(1, 50))) + b"\n{}\n")
    for path in map(paths.__getitem__, MALFORMED):
        with pytest.raises(InvalidArgument):
            judged_here(path)
    problems = problems_of(spark, {**paths, "unread": str(unread)})
    assert problems.keys() == {*MALFORMED, "unread"}
    lines = {"more offsets than values in a poll": 2, "two operations of one process": 2, "time that falls": 2}
    for case in MALFORMED:
        line = lines.get(case, 3 if case == "a value sent twice" else len(Path(paths[case]).read_bytes().splitlines()))
        assert problems[case].startswith(f"{paths[case]} line {line}: "), problems[case]
    with pytest.raises(InvalidArgument, match=r"unread\.jsonl line \d+: not an entry of a history: KeyError"):
        judge_history(spark, str(unread))


def long_history(operations: int) -> Iterator[Op]:
    """Producers of five values at a time, and consumers that follow; every 50,000th operation something is wrong."""
    told: list[Op] = []
    clock = count()
    recorder = Recorder(lambda: next(clock), told.append)
    partitions = [TopicPartition("long", number) for number in range(4)]
    stored: dict[TopicPartition, int] = dict.fromkeys(partitions, 0)
    read: dict[tuple[int, TopicPartition], int] = {}
    for number in range(operations):
        partition = partitions[number % 4]
        if number % 3 == 0:
            first = stored[partition]
            values = tuple(range(first, first + 5))
            send = recorder.invoke(number % 4, "send", Send(partition, values))
            recorder.ok(send, Send(partition, values, tuple(map(Offset, values))))
            stored[partition] += 5
        else:
            process = 10 + number % 8
            start = read.get((process, partition), 0) + (number % 50_000 == 49_999)
            seen = tuple(range(start, min(start + 40, stored[partition])))
            poll = Poll((Fetched(partition, tuple(map(Offset, seen)), seen),))
            recorder.ok(recorder.invoke(process, "poll", Poll()), poll)
            read[process, partition] = max(start, start + len(seen))
        yield from told
        told.clear()


@pytest.mark.slow
def test_a_long_history_is_judged_in_pieces_and_the_driver_does_not_grow_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "long.jsonl"
    with open(path, "wb") as file:
        file.writelines(write_lines(long_history(OPERATIONS)))
    before = resident_kib()
    verdict = judge_history(spark, str(path))
    assert resident_kib() - before < 100 << 10
    expected = judged_here(str(path))
    assert differences(verdict, expected) == []
    assert verdict.operations == OPERATIONS


def resident_kib() -> int:
    """The most memory that this process ever had; that of Spark's JVM is bounded by the session."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
