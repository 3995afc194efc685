"""Kafka's embedded consumer protocol: compared with a Kafka client's codec, by its schemas, and with invalid bytes."""

from contextlib import suppress

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.assignors import (
    MemberAssignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from raftlog.errors import InvalidArgument
from raftlog.types import TopicPartition

FEW = settings(max_examples=20)
TOPIC = st.text(max_size=10)
PARTITIONS = st.sets(st.builds(TopicPartition, TOPIC, st.integers(0, (1 << 31) - 1)), max_size=8).map(sorted).map(tuple)
SUBSCRIPTIONS = st.builds(
    Subscription,
    st.sets(TOPIC, max_size=5).map(sorted).map(tuple),
    st.none() | st.binary(max_size=10),
    PARTITIONS,
    st.integers(-1, (1 << 31) - 1),
    st.none() | TOPIC,
)


@FEW
@given(SUBSCRIPTIONS, st.integers(0, 3))
def test_a_decoded_subscription_has_the_fields_of_its_version(said: Subscription, version: int) -> None:
    expected = said._replace(
        owned=said.owned if version >= 1 else (),
        generation=said.generation if version >= 2 else -1,
        rack=said.rack if version >= 3 else None,
    )
    assert decode_subscription(encode_subscription(said, version)) == expected


@FEW
@given(PARTITIONS, st.none() | st.binary(max_size=10))
def test_a_decoded_assignment_equals_the_encoded_one(
    partitions: tuple[TopicPartition, ...], user_data: bytes | None
) -> None:
    assert decode_assignment(encode_assignment(partitions, user_data)) == MemberAssignment(partitions, user_data)


@FEW
@given(st.lists(TOPIC, max_size=4), st.binary(max_size=10))
def test_kafka_clients_encode_the_same_subscription(topics: list[str], user_data: bytes) -> None:
    theirs = ConsumerProtocolMemberMetadata(0, sorted(topics), user_data).encode()
    assert encode_subscription(Subscription(tuple(topics), user_data), 0) == theirs
    assert decode_subscription(theirs) == Subscription(tuple(sorted(topics)), user_data)


def test_kafka_clients_decode_our_assignments() -> None:
    partitions = [TopicPartition("u", 0), TopicPartition("t", 5), TopicPartition("t", 1)]
    theirs = ConsumerProtocolMemberAssignment.decode(encode_assignment(partitions, b"d"))
    assert theirs.assignment == [("t", [1, 5]), ("u", [0])]
    assert theirs.user_data == b"d"


def test_version_3_is_encoded_as_documented() -> None:
    said = Subscription(("u", "t"), None, (TopicPartition("t", 1),), 7, "r")
    assert encode_subscription(said).hex(" ", -4) == bytes.fromhex(
        "0003 00000002 0001 74 0001 75 ffffffff 00000001 0001 74 00000001 00000001 00000007 0001 72"
    ).hex(" ", -4)


def test_unknown_fields_of_a_later_version_are_ignored() -> None:
    data = bytearray(encode_subscription(Subscription(("t",), generation=3)) + b"more")
    data[1] = 9
    assert decode_subscription(bytes(data)) == Subscription(("t",), generation=3)


def test_empty_bytes_decode_to_an_empty_assignment() -> None:
    assert decode_assignment(b"") == MemberAssignment()


@pytest.mark.parametrize("cut", range(27))
def test_a_truncated_subscription_is_refused(cut: int) -> None:
    data = encode_subscription(Subscription(("t",), b"d", (TopicPartition("t", 1),)), 1)
    assert len(data) > cut
    with pytest.raises(InvalidArgument):
        decode_subscription(data[:cut])


@pytest.mark.parametrize(
    "data", ["ffff00000000", "00007fffffff", "0000ffffffff", "000000000001ffff", "0000000000010001ff"]
)
def test_wrong_lengths_are_refused(data: str) -> None:
    with pytest.raises(InvalidArgument):
        decode_subscription(bytes.fromhex(data))
    with pytest.raises(InvalidArgument):
        decode_assignment(bytes.fromhex(data))


@FEW
@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    with suppress(InvalidArgument):
        subscription = decode_subscription(data)
        assert decode_subscription(encode_subscription(subscription)) == subscription
    with suppress(InvalidArgument):
        assignment = decode_assignment(data)
        assert decode_assignment(encode_assignment(*assignment)) == assignment


def test_negative_partitions_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        decode_assignment(encode_assignment([TopicPartition("t", -1)]))
