"""Sources of an archive: a running cluster, or segment files of stopped brokers and of backups."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID, uuid5

from raftlog.client import BrokerAddresses
from raftlog.pipeline.archives.sources import ArchiveSplit, SourceLog
from raftlog.pipeline.brokers.connection import parse_addresses
from raftlog.pipeline.brokers.fetcher import read_split
from raftlog.pipeline.brokers.plan import list_partitions
from raftlog.pipeline.brokers.settings import REQUEST_MS_DEFAULT
from raftlog.pipeline.brokers.split import BrokerSplit
from raftlog.pipeline.options import TopicChoice, as_names
from raftlog.pipeline.segments.extent import LogExtent
from raftlog.pipeline.segments.plan import SPLIT_BYTES, logs_in, splits_of
from raftlog.pipeline.segments.reader import read_segment_split
from raftlog.types import TopicPartition

SPLIT_ROWS: Final = 500_000


class Brokers:
    """Running cluster as the source of an archive.

    `bootstrap` is a comma-separated list of HOST:PORT, or a `BrokerAddresses`. A task reads at most `split_rows`
    offsets, and waits at most `request_timeout_ms` for unavailable brokers. With `skip_undecodable`, records that
    cannot be decoded are left out, with a warning."""

    may_lag: Final = False

    def __init__(
        self,
        bootstrap: str | BrokerAddresses,
        *,
        split_rows: int = SPLIT_ROWS,
        request_timeout_ms: int = REQUEST_MS_DEFAULT,
        skip_undecodable: bool = False,
    ) -> None:
        """Read through the brokers at `bootstrap`, with about `split_rows` rows in each task.

        `skip_undecodable` continues after batches that cannot be decoded."""
        self._bootstrap = parse_addresses(bootstrap)
        self._split_rows, self._request_timeout_ms = split_rows, request_timeout_ms
        self._skip_undecodable = skip_undecodable

    def logs(self, choice: TopicChoice, *, fail_on_data_loss: bool) -> list[SourceLog]:
        """Return the present partitions of the topics, as brokers report them; see `ArchiveSource.logs`."""
        there = list_partitions(self._bootstrap, choice, request_timeout_ms=self._request_timeout_ms)
        logs = []
        for log in there.logs:
            whole = BrokerSplit(
                there.addresses,
                *log,
                fail_on_data_loss=fail_on_data_loss,
                request_timeout_ms=self._request_timeout_ms,
                skips_undecodable=self._skip_undecodable,
            )
            group_id = uuid5(UUID(log.topic_id), str(log.partition))
            logs.append(SourceLog(log.place, str(group_id), log.start, log.end, partial(self._cut_log, whole)))
        return logs

    def _cut_log(self, broker_split: BrokerSplit, start: int, end: int) -> Sequence[ArchiveSplit]:
        """Return the offsets from `start` to `end` of the split as splits of at most `split_rows` offsets."""
        splits = []
        for first in range(start, end, self._split_rows):
            split = replace(broker_split, start=first, end=min(end, first + self._split_rows))
            place = TopicPartition(split.topic, split.partition)
            splits.append(ArchiveSplit(place, split.start, split.end, partial(read_split, split)))
        return splits


class Segments:
    """Data directories of stopped brokers, or copies of them, as the source of an archive.

    All executors must have access to them. The directories may be older than the archive. A task reads at most
    `split_bytes` of a segment file. With `skip_undecodable` records that cannot be decoded are left out, with a
    warning."""

    may_lag: Final = True

    def __init__(self, paths: Sequence[str], *, split_bytes: int = SPLIT_BYTES, skip_undecodable: bool = False) -> None:
        """Read segment files of the data directories `paths`, about `split_bytes` bytes in each task."""
        self._paths = as_names(paths)
        self._split_bytes, self._skip_undecodable = split_bytes, skip_undecodable

    def logs(self, choice: TopicChoice, *, fail_on_data_loss: bool) -> list[SourceLog]:
        """Return the partitions that the directories contain; see `ArchiveSource.logs`."""
        logs = []
        for log in logs_in(self._paths, topics=choice):
            place = TopicPartition(log.topic, log.partition)
            logs.append(
                SourceLog(place, str(log.replica.group_id), log.start, log.end, partial(self._cut_log, place, log))
            )
        return logs

    def _cut_log(self, place: TopicPartition, log: LogExtent, start: int, end: int) -> Sequence[ArchiveSplit]:
        """Return splits by bytes; one split without rows if compaction removed all of them."""
        splits = splits_of(log, start, end, split_bytes=self._split_bytes, skips_undecodable=self._skip_undecodable)
        if not splits:  # all of it was compacted away
            return [ArchiveSplit(place, start, end, partial(iter, ()))]
        return [ArchiveSplit(place, split.start, split.end, partial(read_segment_split, split)) for split in splits]
