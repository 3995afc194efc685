"""Judge histories that are too large for one process: as `raftlog.checkers` would, by joins and windows of Spark SQL.

Entries become rows in tasks (`parts`), tables are made of them (`tables`), and each judge is a query that gives
anomalies. The driver sees the pieces of the files, `KEPT_MAX` anomalies of a kind, and a few numbers for each run; the
rest stays in the workers, on disk where memory is short. An executor that is lost takes tables with it and fails the
job, unless Spark has a checkpoint directory (`SparkContext.setCheckpointDir`), where tables are written then.

Called by users, `raftlog pipeline history`, and tests, which judge hundreds of histories at once (`judge_histories`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple, cast

from pyspark.sql import DataFrame, Row, SparkSession

from raftlog.checkers import AnomalyKind
from raftlog.checkers.judge import KEPT_MAX
from raftlog.errors import InvalidArgument
from raftlog.pipeline.histories import going_back, malformed, orders, polls, records, sequences, tables
from raftlog.pipeline.histories.files import Piece, count, cut, find, needs_counting, numbered, packed
from raftlog.pipeline.histories.proofs import Proof, proofs_of, wanted_of
from raftlog.pipeline.histories.source import parts_of_pieces
from raftlog.pipeline.histories.verdict import HistoryAnomaly, HistoryVerdict
from raftlog.pipeline.jobs import run_splits
from raftlog.pipeline.progress import OnProgress, watching

TABLES: Final = (
    ("lists", tables.LISTS),
    ("trims", tables.TRIMS),
    ("books", tables.BOOKS),
    ("places", tables.PLACES),
    ("floors", tables.FLOORS),
    ("sends", tables.SENDS),
    ("gaps", tables.GAPS),
)
"""In an order in which each is made of those before it, and of parts, shown and values."""
PROBLEMS: Final = (malformed.UNREADABLE, malformed.UNPAIRED, malformed.MISSENT)
JUDGES: Final = (
    (
        "has_operations",
        (
            records.INCONSISTENT,
            records.PHANTOMS,
            polls.INSIDE_POLLS,
            orders.INSIDE_SENDS,
            orders.STALE_ENDS,
            orders.TRIMS_UNDONE,
        ),
    ),
    ("has_operations", (records.SEEN_TWICE,)),
    ("has_operations", (records.UNSEEN,)),
    ("has_gaps", (records.GAPS,)),
    ("has_operations", (polls.STEPS,)),
    ("has_operations", (orders.SENDS,)),
    ("has_lists", (going_back.LISTED,)),
    ("has_groups", (going_back.PHANTOM_COMMITS, going_back.COMMITTED)),
    ("has_producers", (sequences.SEQUENCES,)),
)
"""What a history has to have, and who judges it then. Queries that sort little are put together: each has its price,
and so have large ones."""
FIRST_OF_EACH: Final = f"""
    select run, anomaly, seq, left(what, 10000) as what,
        array_sort(array_distinct(array_compact(proof))) as proof, total
    from (
        select *, row_number() over (partition by run, anomaly order by seq, what) as number,
            count(*) over (partition by run, anomaly) as total
        from {{found}}
    ) where number <= {KEPT_MAX} order by run, anomaly, seq, what
"""  # noqa: S608 — a number of ours
SUMMARY: Final = """
    select run, count_if(type = 'invoke' and part = 0) as operations, count(*) > 0 as has_operations,
        bool_or(kind = 'list') as has_lists, bool_or(kind = 'committed') as has_groups,
        bool_or(producer is not null) as has_producers, bool_or(size(keys) > 0) as has_keys,
        bool_or(kind = 'join') as has_members, bool_or(kind = 'commit' and member <> '') as has_commits_of_members,
        bool_or(kind = 'handle') as has_handlers,
        bool_or(kind in ('write', 'read', 'cas')) as has_registers, bool_or(kind = 'topic') as has_topics
    from {parts} group by run
"""


def judge_history(spark: SparkSession, path: str, *, on_progress: OnProgress | None = None) -> HistoryVerdict:
    """Judge the history at a path: a file of JSON lines (also `.gz`), or a directory of them (`*.jsonl`, `*.jsonl.gz`),
    which are one history in the order of their names.

    The path must be readable by all workers; a URI of a file system that pyarrow knows will do. Rules are those of
    `raftlog.checkers.Rules()`: offsets are dense, but for compacted partitions. Raises `InvalidArgument` for what is no
    history, with file and line, and `PipelineFailed`.
    """
    return judge_histories(spark, {"": path}, on_progress=on_progress)[""]


def judge_histories(
    spark: SparkSession, paths: Mapping[str, str], *, on_progress: OnProgress | None = None
) -> dict[str, HistoryVerdict]:
    """Judge many histories at once, each by itself: for many small ones Spark's own time is paid once."""
    names, pieces = _planned(spark, paths, on_progress)
    with watching(spark, "history: read", on_progress):
        made = _read(spark, pieces)
        problems = _found(spark, made, PROBLEMS)
    if problems:
        told = _told(problems, _proofs(spark, pieces, problems, on_progress))
        raise InvalidArgument(told[min(told)])
    with watching(spark, "history: judge", on_progress):
        found, summary = _judge(spark, made)
    proofs = _proofs(spark, pieces, found, on_progress)
    return {name: _verdict(run, found, summary.get(run, Summary()), proofs) for run, name in enumerate(names)}


def problems_of(
    spark: SparkSession, paths: Mapping[str, str], *, on_progress: OnProgress | None = None
) -> dict[str, str]:
    """Why histories are none, of those that are: the first reason of each, with file and line."""
    names, pieces = _planned(spark, paths, on_progress)
    with watching(spark, "history: read", on_progress):
        problems = _found(spark, _read(spark, pieces), PROBLEMS)
    told = _told(problems, _proofs(spark, pieces, problems, on_progress))
    return {names[run]: why for run, why in told.items()}


class Found(NamedTuple):
    """One of the first anomalies of its kind in a run, and how many of the kind the run has."""

    run: int
    anomaly: str
    what: str
    seq: int
    proof: tuple[int, ...]
    total: int


class Summary(NamedTuple):
    """What a run has besides anomalies."""

    operations: int = 0
    unjudged: tuple[AnomalyKind, ...] = ()


def _planned(
    spark: SparkSession, paths: Mapping[str, str], on_progress: OnProgress | None
) -> tuple[list[str], list[Piece]]:
    """Names by run, and all pieces with what stands before them."""
    names = list(paths)
    pieces = cut(file for run, name in enumerate(names) for file in find(run, paths[name]))
    if needs_counting(pieces):
        counts = run_splits(spark, "history: count entries", packed(pieces), count, on_progress=on_progress)
        pieces = numbered(pieces, counts)
    return names, pieces


def _read(spark: SparkSession, pieces: Sequence[Piece]) -> dict[str, Any]:
    """The tables that `malformed` looks at. `shown` is not kept: it would be as large as the history."""
    made: dict[str, Any] = {"parts": _made(spark, parts_of_pieces(spark, pieces))}
    made["shown"] = spark.sql(tables.SHOWN, **made)
    made["values"] = _made(spark, spark.sql(tables.VALUES, **made))
    return made


def _judge(spark: SparkSession, made: dict[str, Any]) -> tuple[list[Found], dict[int, Summary]]:
    for name, query in TABLES:
        made[name] = _made(spark, spark.sql(query, **made))
    totals = spark.sql(SUMMARY, **made).collect()
    has = {name for row in totals for name, value in row.asDict().items() if value is True}
    if not made["gaps"].isEmpty():
        has.add("has_gaps")
    found = [each for what, queries in JUDGES if what in has for each in _found(spark, made, queries)]
    return found, {row.run: Summary(row.operations, tuple(_unjudged(row))) for row in totals}


def _found(spark: SparkSession, made: dict[str, Any], queries: Iterable[str]) -> list[Found]:
    """By run, kind and sequence."""
    found = reduce(DataFrame.unionByName, (spark.sql(query, **made) for query in queries))
    rows = spark.sql(FIRST_OF_EACH, found=found).collect()
    return [Found(row.run, row.anomaly, row.what, row.seq, tuple(row.proof), row.total) for row in rows]


def _made(spark: SparkSession, table: DataFrame) -> DataFrame:
    """The table's rows without its query. `persist` keeps it, and with it every query behind is analysed and optimised
    from the files on, which takes longer than judging a small history."""
    return table.checkpoint() if spark.sparkContext.getCheckpointDir() else table.localCheckpoint()


def _unjudged(row: Row) -> Iterator[AnomalyKind]:
    if row.has_keys:
        yield from ("lost-key", "resurrected-key")
    if row.has_members:
        yield from ("two-owners", "generation-went-back")
    if row.has_commits_of_members:
        yield from ("fenced-commit", "lost-commit")
    if row.has_handlers:
        yield from ("unhandled", "handled-out-of-order")
    if row.has_registers:
        yield "not-linearizable"
    if row.has_topics:
        # What a deleted topic took with it is neither lost nor a gap; which topics are deleted is not looked for.
        yield from ("lost-topic", "resurrected-topic", "lost-write", "unseen", "gap")


def _proofs(
    spark: SparkSession, pieces: Sequence[Piece], found: Sequence[Found], on_progress: OnProgress | None
) -> dict[tuple[int, int], Proof]:
    """Every entry that proves something, by run and sequence."""
    sequences: dict[int, set[int]] = {}
    for each in found:
        sequences.setdefault(each.run, set()).update(each.proof)
    wanted = wanted_of(pieces, sequences)
    proofs = run_splits(spark, "history: find the proofs", wanted, proofs_of, on_progress=on_progress)
    return {(proof.run, proof.sequence): proof for proof in proofs}


def _told(problems: Sequence[Found], proofs: Mapping[tuple[int, int], Proof]) -> dict[int, str]:
    """The first problem of each run. One that says itself where it is has no proof."""
    told: dict[int, str] = {}
    for each in sorted(problems, key=lambda each: (each.run, each.seq, each.proof)):
        proof = proofs[each.run, each.proof[0]] if each.proof else None
        why = each.what if proof is None else f"{proof.path} line {proof.line}: {each.what}: {proof.text}"
        told.setdefault(each.run, why)
    return told


def _verdict(
    run: int, found: Sequence[Found], summary: Summary, proofs: Mapping[tuple[int, int], Proof]
) -> HistoryVerdict:
    own = [each for each in found if each.run == run]
    anomalies = tuple(
        HistoryAnomaly(
            cast(AnomalyKind, each.anomaly),
            each.what,
            each.proof,
            tuple(proofs[run, sequence].text for sequence in each.proof),
        )
        for each in own
    )
    counts = {cast(AnomalyKind, each.anomaly): each.total for each in own}
    return HistoryVerdict(anomalies, counts, summary.operations, summary.unjudged)
