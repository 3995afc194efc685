"""Helpers of archive tests: a log in memory, batches without Spark, failing files, contents of an archive."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from raftlog.pipeline.archives.archive import ArchiveReport, archive_in_batches
from raftlog.pipeline.archives.compaction import CompactionReport, compact_in_batches
from raftlog.pipeline.archives.files import Files, LocalFiles, _NoLock
from raftlog.pipeline.archives.manifest import ArchivedFile
from raftlog.pipeline.archives.sources import ArchiveSplit, SourceLog
from raftlog.pipeline.archives.state import ArchiveState, read_newest
from raftlog.pipeline.options import TopicChoice
from raftlog.pipeline.rows import ARROW_SCHEMA
from raftlog.storage.disk import DirectoryLock
from raftlog.types import TopicPartition

DAY_US = 86_400_000_000
PLACE = TopicPartition("orders", 0)
S = TypeVar("S")
R = TypeVar("R")


def row_of(place: TopicPartition, offset: int) -> dict[str, Any]:
    """Return the record at an offset as a row: days alternate, and some records have no timestamp."""
    return {
        "topic": place.topic,
        "partition": place.partition,
        "offset": offset,
        "timestamp": None if offset % 5 == 4 else (offset % 3) * DAY_US + offset,
        "timestampType": 0,
        "key": None if offset % 2 else b"key",
        "value": f"{place} {offset}".encode(),
        "headers": [{"key": "h", "value": b"v"}] if offset % 7 == 0 else None,
    }


def rows_between(place: TopicPartition, start: int, end: int, at_once: int = 4) -> Iterator[pa.RecordBatch]:
    for first in range(start, end, at_once):
        rows = [row_of(place, offset) for offset in range(first, min(end, first + at_once))]
        yield pa.RecordBatch.from_pylist(rows, schema=ARROW_SCHEMA)


class MemorySource:
    """Source of logs that are only bounds of offsets; a split has `split_rows` offsets."""

    def __init__(self, *, split_rows: int = 8, may_lag: bool = False, **ends: int) -> None:
        self.may_lag = may_lag
        self.split_rows = split_rows
        self.ids = {TopicPartition(topic, 0): f"id of {topic}" for topic in ends}
        self.bounds = {TopicPartition(topic, 0): (0, end) for topic, end in ends.items()}

    def logs(self, choice: TopicChoice, *, fail_on_data_loss: bool) -> list[SourceLog]:
        chosen = choice.select([place.topic for place in self.bounds])
        return [
            SourceLog(place, self.ids[place], start, end, partial(self._cut, place))
            for place, (start, end) in self.bounds.items()
            if place.topic in chosen
        ]

    def _cut(self, place: TopicPartition, start: int, end: int) -> Sequence[ArchiveSplit]:
        borders = [*range(start, end, self.split_rows), end]
        pairs = pairwise(borders)
        return [ArchiveSplit(place, *pair, partial(rows_between, place, *pair)) for pair in pairs]


def run_one_by_one(
    what: str, splits: Sequence[S], work: Callable[[S], Iterable[R]]
) -> Iterator[tuple[Sequence[S], list[R]]]:
    """Run each split as a batch of its own in this process."""
    for split in splits:
        yield [split], list(work(split))


def run_twice(
    what: str, splits: Sequence[S], work: Callable[[S], Iterable[R]]
) -> Iterator[tuple[Sequence[S], list[R]]]:
    """Yield batches of two splits, each of which runs twice, as for a retry; the first results are dropped."""
    for first in range(0, len(splits), 2):
        batch = splits[first : first + 2]
        for split in batch:
            list(work(split))
        yield batch, [result for split in batch for result in work(split)]


def archive_to(files: Files, source: MemorySource, **changes: Any) -> ArchiveReport:
    options = {"compression": "zstd", "fail_on_data_loss": True} | changes
    return archive_in_batches(options.pop("batches", run_one_by_one), source, files, TopicChoice(), **options)


def compact(files: Files, *, target_bytes: int = 1 << 20, grace_seconds: float = 0) -> CompactionReport:
    return compact_in_batches(
        run_one_by_one, files, target_bytes=target_bytes, compression="zstd", grace_seconds=grace_seconds
    )


def rows_in(files: Files, archived: Iterable[ArchivedFile], place: TopicPartition = PLACE) -> list[dict[str, Any]]:
    """Return the rows of the files of a topic-partition, by offset, as `row_of` returns them."""
    rows: list[dict[str, Any]] = []
    for file in archived:
        if file.place == place:
            columns = {"topic": place.topic, "partition": place.partition}
            rows += [
                columns | row for row in pq.ParquetFile(files.open_input(file.path)).read(use_threads=False).to_pylist()
            ]
    return [row | {"timestamp": _microseconds(row)} for row in sorted(rows, key=lambda row: row["offset"])]


def _microseconds(row: dict[str, Any]) -> int | None:
    return None if row["timestamp"] is None else pa.scalar(row["timestamp"], pa.timestamp("us", tz="UTC")).value


def require_each_once(files: Files, state: ArchiveState, place: TopicPartition = PLACE) -> None:
    """Check that the live files have exactly the covered rows."""
    covered = state.covered[place]
    expected = [row_of(place, offset) for offset in range(covered.start, covered.end)]
    assert rows_in(files, state.files.values(), place) == expected


def require_complete(path: str, end: int) -> None:
    """Check an archive: covered to the end, each record once, and no unlisted files."""
    files = LocalFiles(path)
    found = read_newest(files)
    assert found.newest.covered[PLACE][1:] == (0, end)
    require_each_once(files, found.newest)
    assert parquet_files(path) == sorted(found.newest.files)
    assert not files.names("_raftlog/staging")


def parquet_files(path: str) -> list[str]:
    """Return the Parquet files outside of the internal directories."""
    found = []
    for directory, _, names in os.walk(path):
        relative = os.path.relpath(directory, path)
        if not relative.startswith("_"):
            found += [f"{relative}/{name}" for name in names]
    return sorted(found)


class ProcessKilled(BaseException):
    """Simulated kill of the process."""


class KilledFiles(LocalFiles):
    """Files whose process is killed at the change of the file system after `changes` of them."""

    def __init__(self, root: str, changes: int) -> None:
        super().__init__(root)
        self._left = changes

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return self._count_change(found) if name in _CHANGES else found

    def _count_change(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise ProcessKilled
            return change(*arguments)

        return counted


class Turns:
    """Turns of threads: one runs at a time, and the next is drawn when all others wait."""

    def __init__(self, seed: int, count: int) -> None:
        self._chance, self._alive = Random(seed), count
        self._waiting: set[int] = set()
        self._next: int | None = None
        self._changed = threading.Condition()

    def take(self, me: int) -> None:
        with self._changed:
            self._waiting.add(me)
            self._draw()
            assert self._changed.wait_for(lambda: self._next == me, timeout=60)
            self._next = None
            self._waiting.remove(me)

    def leave(self) -> None:
        with self._changed:
            self._alive -= 1
            self._draw()

    def _draw(self) -> None:
        if self._waiting and len(self._waiting) == self._alive:
            self._next = self._chance.choice(sorted(self._waiting))
            self._changed.notify_all()


class SharedFiles(LocalFiles):
    """Files without locks, of which each call waits for its turn."""

    def __init__(self, root: str, turns: Turns, me: int) -> None:
        super().__init__(root)
        self._turns, self._me = turns, me

    def lock(self, name: str) -> DirectoryLock:
        return _NoLock()

    def __getattribute__(self, name: str) -> Any:
        if name in _CHANGES or name in ("names", "sizes", "read"):
            self._turns.take(self._me)
        return super().__getattribute__(name)


_CHANGES = frozenset({"create", "make_directory", "move", "delete", "delete_directory", "open_output"})
