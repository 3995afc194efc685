"""What compacted topics ask of records: a key each, for without one nobody could say which record is the newest of its
kind (Kafka's INVALID_RECORD). Stored batches are opened for that, and only for that.
"""

from collections.abc import Iterable

from raftlog.errors import InvalidArgument
from raftlog.records import BatchHeader, read_records
from raftlog.types import Buffer


def check_stored_keys(name: str, batches: Iterable[tuple[BatchHeader, Buffer]]) -> None:
    """Raises `InvalidArgument` for a record without a key, and `InvalidBatch` for what cannot be read."""
    for _, batch in batches:
        if any(record.key is None for record in read_records(batch)):
            raise no_key(name)


def no_key(name: str) -> InvalidArgument:
    return InvalidArgument(
        f"{name}: a record has no key, and the topic is compacted (cleanup.policy): send every record with a key"
    )
