"""Records of a poll in the form of histories."""

from collections.abc import Iterable

from jepsen.checkers import Fetched
from jepsen.checkers.history import Value
from jepsen.workloads.adapters.port import PlacedRecord
from jepsen.workloads.client.values import parse_record
from raftlog.types import Offset, TopicPartition


def group_by_partition(records: Iterable[PlacedRecord]) -> tuple[Fetched, ...]:
    """Return the records by partition, in the order of their arrival."""
    found: dict[TopicPartition, tuple[list[Offset], list[Value]]] = {}
    for record in records:
        offsets, values = found.setdefault(TopicPartition(record.topic, record.partition), ([], []))
        offsets.append(Offset(record.offset))
        values.append(parse_record(record))
    return tuple(Fetched(place, tuple(offsets), tuple(values)) for place, (offsets, values) in found.items())
