"""Options of a produce request from its path and query, the same for every content type."""

from typing import NamedTuple

from raftlog.api.http.records.ndjson_block import LineReader
from raftlog.partitions.results import Acks


class ProduceOptions(NamedTuple):
    """Options of a produce request.

    `partition` is None when the path names none. `timeout_ms` is for the request, or for each append of a
    stream. `line_reader` reads the lines of an NDJSON body. `transactional_id` names the transaction of the records."""

    topic: str
    partition: int | None
    acks: Acks
    timeout_ms: int
    line_reader: LineReader
    transactional_id: str | None = None
