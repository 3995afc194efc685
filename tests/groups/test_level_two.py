"""Committed offsets as release 0.1.0 wrote them: events that only rise."""

from uuid import UUID

import pytest

from raftlog.errors import FormatError
from raftlog.partitions.groups.level_two import Watermark, watermarks_in
from raftlog.types import Offset, TopicPartition
from tests.groups.level_two_events import event_of

KNOWN, OTHER = UUID(int=1), UUID(int=2)


def test_an_event_says_what_was_committed_by_the_uuids_of_the_topics():
    offsets = {TopicPartition("t", 0): Offset(3), TopicPartition("u", 7): Offset(5), TopicPartition("t", 1): Offset(4)}
    event = event_of("g", offsets, {"t": str(KNOWN), "u": str(OTHER)})
    assert watermarks_in(event) == [
        Watermark("g", KNOWN, 0, Offset(3)),
        Watermark("g", OTHER, 7, Offset(5)),
        Watermark("g", KNOWN, 1, Offset(4)),
    ]


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{",
        b"[]",
        b'{"kind":"something else"}',
        b'{"kind":"offsets_committed","group":"g","topic_ids":{"t":"no uuid"},"offsets":[]}',
        b'{"kind":"offsets_committed","group":"g","topic_ids":{},"offsets":[["t",0,1]]}',
        b'{"kind":"offsets_committed","group":"g","topic_ids":{},"offsets":[7]}',
    ],
)
def test_what_this_version_does_not_know_is_refused(value):
    with pytest.raises(FormatError):
        watermarks_in(value)
