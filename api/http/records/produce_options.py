"""What the path and query of a produce say, however its body looks."""

from typing import NamedTuple

from raftlog.api.http.records.ndjson_block import LineReader
from raftlog.partitions.results import Acks


class ProduceOptions(NamedTuple):
    """`partition` is None when the path names none. `timeout_ms` is for the request, or for each append of a stream.
    `line_reader` is how the lines of an NDJSON body are read."""

    topic: str
    partition: int | None
    acks: Acks
    timeout_ms: int
    line_reader: LineReader
