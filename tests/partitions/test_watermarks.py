"""Committed offsets as events: they only rise, and a restatement forgets only what is known to be deleted."""

import pytest

from raftlog.errors import FormatError
from raftlog.partitions.groups.watermarks import Watermarks, committed
from raftlog.types import Offset, TopicPartition

KNOWN, NEW, GONE = "id-known", "id-new", "id-gone"


def commit(group, topic, topic_id, offset, partition=0):
    return committed(group, {TopicPartition(topic, partition): Offset(offset)}, {topic: topic_id})


def test_a_late_or_repeated_commit_moves_nothing_back():
    watermarks = Watermarks()
    for offset in (3, 7, 5, 7):
        watermarks.apply(commit("g", "t", KNOWN, offset))
    assert watermarks.of("g") == {(KNOWN, 0): 7}
    assert watermarks.of("other") == {}
    assert watermarks.groups() == ["g"]


def test_a_restatement_keeps_topics_that_are_not_known_yet_and_drops_deleted_ones():
    watermarks = Watermarks()
    for topic, topic_id, offset in (("old", KNOWN, 1), ("made just now", NEW, 77), ("gone", GONE, 5)):
        watermarks.apply(commit("g", topic, topic_id, offset))
    again = Watermarks()
    for group, value in watermarks.restatement({KNOWN: "old"}, lambda topic_id: topic_id == GONE):
        assert group == "g"
        again.apply(value)
    assert again.of("g") == {(KNOWN, 0): 1, (NEW, 0): 77}


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b'{"kind":"something else"}'])
def test_what_this_version_does_not_know_is_refused(value):
    with pytest.raises(FormatError):
        Watermarks().apply(value)
