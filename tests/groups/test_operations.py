"""Requests that are too large to send between a broker and a coordinator, and the resulting errors."""

from uuid import UUID

import pytest

from raftlog.errors import InvalidArgument, OutcomeUnknown
from raftlog.partitions.coordinator.operation import PACKED_BYTES_MAX
from raftlog.partitions.groups.operations import COMMIT, OFFSETS
from raftlog.partitions.groups.records import OffsetRecord
from raftlog.types import Offset

METADATA = "x" * 4096
TOO_MANY = {
    (UUID(int=1), number): OffsetRecord(Offset(1), -1, METADATA, 0) for number in range(PACKED_BYTES_MAX // 4096)
}


def test_a_too_large_answer_leaves_a_commit_unknown() -> None:
    """The commit was executed before, so it did not fail."""
    with pytest.raises(OutcomeUnknown, match="was carried out"):
        COMMIT.pack_answer(TOO_MANY)
    with pytest.raises(InvalidArgument, match="too many for a message"):
        OFFSETS.pack_answer(TOO_MANY)


@pytest.mark.parametrize(("metadata", "offset"), [("\ud800", 1), ("", 1 << 64)])
def test_values_that_msgpack_cannot_encode_are_refused(metadata: str, offset: int) -> None:
    with pytest.raises(InvalidArgument, match="cannot be encoded"):
        OFFSETS.pack_answer({(UUID(int=1), 0): OffsetRecord(Offset(offset), -1, metadata, 0)})
