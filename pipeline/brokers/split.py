"""Range of offsets of one partition that one task reads. Pure, except for its base class of Spark."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from raftlog.pipeline.brokers.settings import FETCH_BYTES_DEFAULT, REQUEST_MS_DEFAULT


@dataclass(frozen=True)
class BrokerSplit(InputPartition):
    """Records with `start ≤ offset < end` of a partition of the topic with the id `topic_id`.

    `leader`, HOST:PORT, is the first broker to ask."""

    bootstrap: Sequence[str]
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    leader: str | None = None
    fail_on_data_loss: bool = True
    fetch_max_bytes: int = FETCH_BYTES_DEFAULT
    request_timeout_ms: int = REQUEST_MS_DEFAULT
    skips_undecodable: bool = False

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.partition}"

    def __len__(self) -> int:
        return self.end - self.start


def divide(splits: Sequence[BrokerSplit], at_least: int | None) -> list[BrokerSplit]:
    """Drop empty splits, and cut the others in proportion to their lengths, into at least `at_least` splits.

    There are never more splits than offsets."""
    splits = [split for split in splits if len(split) > 0]
    if at_least is None or len(splits) >= at_least:
        return splits
    total = sum(map(len, splits))
    return [piece for split in splits for piece in _cut(split, -(-len(split) * at_least // total))]


def _cut(split: BrokerSplit, count: int) -> Iterator[BrokerSplit]:
    """Yield `count` parts of a split, of nearly equal length; fewer if it has fewer offsets."""
    count = min(count, len(split))
    borders = [split.start + len(split) * number // count for number in range(count + 1)]
    for start, end in pairwise(borders):
        yield replace(split, start=start, end=end)
