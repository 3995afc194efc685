"""Judge histories that are too large for one process: as `raftlog.checkers` would, by joins and windows of Spark SQL.

Entries become rows in tasks (`parts`), tables are made of them (`tables`), and each judge is a query that gives anomalies.
The driver sees the pieces of the files, `KEPT_MAX` anomalies of a kind, and a few numbers for each run; everything else
stays in the workers, on disk where memory is short. Called by users, `raftlog pipeline history`, and the tests, which
judge hundreds of histories in one job (`judge_histories`).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple, cast

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.storagelevel import StorageLevel

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
    ("books", tables.BOOKS),
    ("shown", tables.SHOWN),
    ("values", tables.VALUES),
    ("places", tables.PLACES),
    ("floors", tables.FLOORS),
)
"""In an order in which each is made of those before it."""
PASSING: Final = frozenset(("shown",))
"""Not kept: it would be as large as the history."""
JUDGES: Final = (
    malformed.UNREADABLE,
    malformed.UNPAIRED,
    malformed.MISSENT,
    records.INCONSISTENT,
    records.SEEN_TWICE,
    records.PHANTOMS,
    records.UNSEEN,
    records.GAPS,
    polls.STEPS,
    polls.INSIDE_POLLS,
    orders.SENDS,
    orders.INSIDE_SENDS,
    orders.STALE_ENDS,
    orders.TRIMS_UNDONE,
    going_back.LISTED,
    going_back.COMMITTED,
    going_back.PHANTOM_COMMITS,
    sequences.SEQUENCES,
)
FIRST_OF_EACH: Final = f"""
    select run, anomaly, seq, left(what, 10000) as what, array_sort(array_distinct(array_compact(proof))) as proof, total
    from (
        select *, row_number() over (partition by run, anomaly order by seq, what) as number,
            count(*) over (partition by run, anomaly) as total
        from {{found}}
    ) where number <= {KEPT_MAX} order by run, anomaly, seq, what
"""  # noqa: S608 — a number of ours
SUMMARY: Final = """
    select run, count_if(type = 'invoke' and part = 0) as operations, bool_or(size(keys) > 0) as has_keys,
        bool_or(kind = 'join') as has_members, bool_or(kind = 'commit' and member <> '') as has_commits_of_members
    from {parts} group by run
"""
MALFORMED: Final = frozenset(("unreadable", "malformed"))


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
    names = list(paths)
    pieces = cut(file for run, name in enumerate(names) for file in find(run, paths[name]))
    if needs_counting(pieces):
        counts = run_splits(spark, "history: count entries", packed(pieces), count, on_progress=on_progress)
        pieces = numbered(pieces, counts)
    found, summary = _judge(spark, pieces, on_progress)
    proofs = _proofs(spark, pieces, found, on_progress)
    _refuse_malformed(found, proofs)
    return {name: _verdict(run, found, summary.get(run, Summary()), proofs) for run, name in enumerate(names)}


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


def _judge(
    spark: SparkSession, pieces: Sequence[Piece], on_progress: OnProgress | None
) -> tuple[list[Found], dict[int, Summary]]:
    """All queries as one job; tables that several read are kept until it is done."""
    kept: list[DataFrame] = []
    try:
        made = {"parts": _keep(parts_of_pieces(spark, pieces), kept)}
        for name, query in TABLES:
            table = spark.sql(query, **made)
            made[name] = table if name in PASSING else _keep(table, kept)
        found = reduce(DataFrame.unionByName, (spark.sql(query, **made) for query in JUDGES))
        with watching(spark, "history: judge", on_progress):
            rows = spark.sql(FIRST_OF_EACH, found=found).collect()
            totals = spark.sql(SUMMARY, **made).collect()
    finally:
        for table in kept:
            table.unpersist()
    return [Found(row.run, row.anomaly, row.what, row.seq, tuple(row.proof), row.total) for row in rows], {
        row.run: Summary(row.operations, tuple(_unjudged(row))) for row in totals
    }


def _keep(table: DataFrame, kept: list[DataFrame]) -> DataFrame:
    kept.append(table.persist(StorageLevel.MEMORY_AND_DISK))
    return table


def _unjudged(row: Row) -> Iterator[AnomalyKind]:
    if row.has_keys:
        yield from ("lost-key", "resurrected-key")
    if row.has_members:
        yield from ("two-owners", "generation-went-back")
    if row.has_commits_of_members:
        yield from ("fenced-commit", "lost-commit")


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


def _refuse_malformed(found: Sequence[Found], proofs: Mapping[tuple[int, int], Proof]) -> None:
    """Raises `InvalidArgument` for the first entry of the first run that is no history."""
    problems = [each for each in found if each.anomaly in MALFORMED]
    if not problems:
        return
    first = min(problems, key=lambda each: (each.run, each.seq, each.anomaly == "malformed"))
    if first.anomaly == "unreadable":
        raise InvalidArgument(first.what)
    proof = proofs[first.run, first.proof[0]]
    raise InvalidArgument(f"{proof.path} line {proof.line}: {first.what}: {proof.text}")


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
