"""Settings of a consumer instance, and those stored in the log."""

import pytest

from raftlog.errors import FormatError, InvalidArgument, InvalidConsumer
from raftlog.partitions.consumers.patterns import PATTERN_CHARACTERS_MAX, TopicPattern
from raftlog.partitions.consumers.settings import (
    InstanceSettings,
    Owner,
    check_name,
    read_settings,
    read_stored_settings,
)
from raftlog.partitions.consumers.stored_instance import Anchor, StoredInstance, from_record
from raftlog.partitions.groups.records import InstanceKey, decode_value, encode_value
from raftlog.types import Offset, TopicPartition


def test_the_defaults_are_those_of_kafka_and_the_rest_proxy():
    assert read_settings({}) == InstanceSettings()
    assert InstanceSettings().as_mapping() == {
        "format": "binary",
        "auto.offset.reset": "latest",
        "auto.commit.enable": True,
        "fetch.min.bytes": 1,
        "consumer.request.timeout.ms": 1_000,
        "partition.assignment.strategy": "range",
    }


@pytest.mark.parametrize("value", [False, "false", "FALSE"])
def test_strings_and_json_values_are_accepted_alike(value):
    assert read_settings({"auto.commit.enable": value}).auto_commit is False
    assert read_settings({"fetch.min.bytes": "70", "consumer.request.timeout.ms": 5}) == InstanceSettings(
        fetch_min_bytes=70, request_timeout_ms=5
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"auto.offset.rest": "earliest"},
            "unknown setting 'auto.offset.rest' (did you mean 'auto.offset.reset'?); it can have name, format",
        ),
        ({"format": "avro"}, "format cannot be 'avro'; it can be binary, json"),
        ({"auto.offset.reset": "first"}, "it can be latest, earliest, none"),
        ({"auto.commit.enable": "no"}, "it can be true or false"),
        ({"auto.commit.enable": 1}, "it can be true or false"),
        ({"fetch.min.bytes": -1}, "a whole number in 0"),
        ({"fetch.min.bytes": True}, "a whole number in 0"),
        ({"fetch.min.bytes": "1e3"}, "a whole number in 0"),
        ({"consumer.request.timeout.ms": 10**9}, "a whole number in 0"),
        ({"partition.assignment.strategy": "best"}, "it can be range, roundrobin, sticky"),
        ({"format": ["json"]}, "it can be binary, json"),
    ],
)
def test_invalid_values_are_refused_with_the_valid_ones(given, says):
    with pytest.raises(InvalidConsumer) as raised:
        read_settings(given)
    assert says in str(raised.value)


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "x" * 256, "\ud800", ".", ".."])
def test_invalid_instance_names_are_refused(name):
    with pytest.raises(InvalidConsumer):
        check_name(name)


STORED = StoredInstance(
    InstanceSettings(format="json", reset="none", auto_commit=False),
    pattern="orders-.*",
    member_id="c-1",
    anchors={
        TopicPartition("t", 0): Anchor(Offset(7), Offset(-1)),
        TopicPartition("t", 2): Anchor(Offset(0), Offset(9)),
    },
)


def test_stored_instances_are_read_back_from_the_log():
    assert from_record(STORED.as_record()) == STORED
    key = InstanceKey("g", "c")
    assert from_record(decode_value(key, encode_value(STORED.as_record()))) == STORED
    by_hand = StoredInstance(InstanceSettings(), assigned=(TopicPartition("t", 1),))
    assert from_record(by_hand.as_record()) == by_hand


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"settings": {"format": "x"}}, {"assigned": [["t"]]}, {"topics": None}, {"anchors": {"t": [1]}}],
)
def test_an_undecodable_record_raises_a_format_error(change):
    with pytest.raises(FormatError):
        from_record({**STORED.as_record(), **change})


async def test_a_pattern_matches_whole_names_in_linear_time():
    names = ["orders", "orders-1", "my-orders-2", "orders-22"]
    assert await TopicPattern("orders-.*").matching(names) == ("orders-1", "orders-22")
    assert await TopicPattern("(a|aa|aaa|a*)*$").matching(["a" * 248 + "!"]) == ()


@pytest.mark.parametrize("text", ["(", "(?=a)", r"(a)\1", "a" * (PATTERN_CHARACTERS_MAX + 1), "\ud800"])
def test_invalid_patterns_are_refused(text):
    with pytest.raises(InvalidArgument, match="topic_pattern"):
        TopicPattern(text)


def test_only_brokers_set_the_owner_of_an_instance() -> None:
    owned = InstanceSettings(owner=Owner("alice", "10.0.0.1"))
    stored = StoredInstance(owned)
    assert from_record(decode_value(InstanceKey("g", "c"), encode_value(stored.as_record()))) == stored
    assert read_stored_settings(owned.as_mapping()) == owned
    assert "owner" not in InstanceSettings().as_mapping()
    with pytest.raises(InvalidConsumer):
        read_settings(owned.as_mapping())
    for wrong in (["alice"], "alice", [1, 2], {}):
        with pytest.raises(InvalidConsumer, match="owner"):
            read_stored_settings({"owner": wrong})
