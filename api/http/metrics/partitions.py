"""Metrics with a series for each partition or topic; their number is bounded, so that scrapes stay fast.

    series of partitions ≤ partitions_max · (3 + other members),   topics ≤ TOPICS_MAX, and one for all the others

Partitions are ordered by topic name and number, so that every scrape has the same ones. The series of a topic count all
its partitions, even those without a series of their own."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import by_labels, single
from raftlog.partitions.metric_sources import ReplicaFigures

_T = TypeVar("_T")
TOPICS_MAX: Final = 1_000
OTHERS: Final = "(other)"
"""Label of the row for all topics without a row; no topic can have this name."""
PART: Final = 250
"""Partitions or topics in one piece of a family; the pieces of a family follow one another."""
_PARTITION: Final = ("high_watermark", "log_start_offset", "log_bytes")
_TOPIC: Final = ("replicas", "replicas_led", "records", "log_bytes", "lag_entries_max")


class TopicFigures(NamedTuple):
    """Sums over the replicas of one topic on this broker."""

    topic: str
    replicas: int
    replicas_led: int
    records: int
    log_bytes: int
    lag_entries_max: int


def partition_families(replicas: Sequence[ReplicaFigures], partitions_max: int) -> Iterator[Metric]:
    """Yield the metric families of replicas, in the order of topics; large families come in pieces."""
    shown = replicas[:partitions_max]
    yield single("metrics_partitions_left_out", len(replicas) - len(shown))
    for field in _PARTITION:
        for part in _parts(shown):
            rows = [([each.topic, str(each.partition)], getattr(each, field)) for each in part]
            yield by_labels(f"partition_{field}", rows)
    for part in _parts(shown):
        yield _lag_family(part)
    topics = _sum_by_topic(replicas)
    for field in _TOPIC:
        for some in _parts(topics):
            yield by_labels(f"topic_{field}", [([each.topic], getattr(each, field)) for each in some])


def _lag_family(part: Iterable[ReplicaFigures]) -> Metric:
    """Return the metric of followers' lags behind the leaders in `part`."""
    rows = [([each.topic, str(each.partition), str(node)], lag) for each in part for node, lag in each.lags]
    return by_labels("replica_lag_entries", rows)


def _sum_by_topic(replicas: Sequence[ReplicaFigures]) -> list[TopicFigures]:
    """Return one row for each of the first `TOPICS_MAX` topics, and one row `OTHERS` for all further topics."""
    groups = groupby(replicas, key=attrgetter("topic"))
    topics = [_sum_topic(name, list(some)) for name, some in islice(groups, TOPICS_MAX)]
    rest = [each for _, some in groups for each in some]
    return [*topics, _sum_topic(OTHERS, rest)] if rest else topics


def _sum_topic(name: str, replicas: Sequence[ReplicaFigures]) -> TopicFigures:
    """Return the sums over the replicas of one topic on this broker, and the largest lag."""
    return TopicFigures(
        name,
        len(replicas),
        sum(each.is_led for each in replicas),
        sum(each.high_watermark - each.log_start_offset for each in replicas),
        sum(each.log_bytes for each in replicas),
        max((entries for each in replicas for _, entries in each.lags), default=0),
    )


def _parts(rows: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield the rows in pieces; without rows one empty piece, so that the scrape describes the family anyway."""
    return (rows[at : at + PART] for at in range(0, max(1, len(rows)), PART))
