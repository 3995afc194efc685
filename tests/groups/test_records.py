"""Keys and values of the log of groups: encoding, bounds, and invalid bytes."""

from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import FormatError, InvalidArgument
from raftlog.partitions.groups import records
from raftlog.partitions.groups.records import (
    GROUP_BYTES_MAX,
    INSTANCE_BYTES_MAX,
    METADATA_BYTES_MAX,
    GroupKey,
    GroupProducerKey,
    GroupProducerRecord,
    GroupRecord,
    InstanceKey,
    Key,
    MemberRecord,
    OffsetKey,
    OffsetRecord,
    PendingOffsetKey,
    PendingOffsetRecord,
    Protocol,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from raftlog.types import FEATURE_LEVEL_TRANSACTIONS, Offset

FEW = settings(max_examples=20)
TOPIC_ID = UUID("6f1c2b3a-0d4e-4f50-8a61-7b2c3d4e5f60")
TEXT = st.text(max_size=20)
NUMBER = st.integers(-1, (1 << 63) - 1)
KEYS = st.one_of(
    st.builds(GroupKey, TEXT),
    st.builds(OffsetKey, TEXT, st.uuids(), st.integers(0, (1 << 31) - 1)),
    st.builds(InstanceKey, TEXT, TEXT),
    st.builds(PendingOffsetKey, TEXT, NUMBER, st.uuids(), st.integers(0, (1 << 31) - 1)),
    st.builds(GroupProducerKey, TEXT, NUMBER),
)
PROTOCOLS = st.lists(st.builds(Protocol, TEXT, st.binary(max_size=20)), max_size=3).map(tuple)
MEMBERS = st.builds(
    MemberRecord, TEXT, st.none() | TEXT, TEXT, TEXT, NUMBER, NUMBER, st.booleans(), st.binary(max_size=20), PROTOCOLS
)
GROUPS = st.builds(
    GroupRecord, TEXT, NUMBER, TEXT, TEXT, st.booleans(), NUMBER, st.lists(MEMBERS, max_size=3).map(tuple)
)
OFFSETS = st.builds(OffsetRecord, NUMBER.map(Offset), NUMBER, TEXT, NUMBER)
PENDING_OFFSETS = st.builds(PendingOffsetRecord, NUMBER.map(Offset), NUMBER, TEXT, NUMBER, NUMBER)
PRODUCERS = st.builds(GroupProducerRecord, NUMBER, NUMBER, NUMBER, NUMBER)
INSTANCES = st.dictionaries(TEXT, st.one_of(st.none(), st.booleans(), NUMBER, TEXT, st.lists(TEXT, max_size=2)))
PAIRS = st.one_of(
    st.tuples(st.just(GroupKey("g")), GROUPS),
    st.tuples(st.just(OffsetKey("g", TOPIC_ID, 1)), OFFSETS),
    st.tuples(st.just(InstanceKey("g", "i")), INSTANCES),
    st.tuples(st.just(PendingOffsetKey("g", 9, TOPIC_ID, 1)), PENDING_OFFSETS),
    st.tuples(st.just(GroupProducerKey("g", 9)), PRODUCERS),
)


@FEW
@given(KEYS)
def test_a_decoded_key_equals_the_encoded_one(key: Key) -> None:
    data = encode_key(key)
    assert decode_key(data) == key
    assert type(decode_key(data)) is type(key)


@FEW
@given(PAIRS)
def test_a_decoded_value_equals_the_encoded_one(pair: tuple[Key, Value]) -> None:
    key, value = pair
    assert decode_value(key, encode_value(value, FEATURE_LEVEL_TRANSACTIONS)) == value


@FEW
@given(KEYS, KEYS)
def test_different_keys_have_different_bytes(one: Key, other: Key) -> None:
    assert (encode_key(one) == encode_key(other)) == (one == other and type(one) is type(other))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\x00\x03\x91\xa1g",
        b"\x00\x02",
        b"\x00\x02\x91\x01",
        b"\x00\x02\x92\xa1g\xa1g",
        b"\x00\x01" + msgpack.packb(["g", bytes(15), 1]),
        b"\x00\x11" + msgpack.packb(["g", 9, bytes(15), 1]),
        b"\x00\x12" + msgpack.packb(["g", "9"]),
        b"\x00\x02\xdd\xff\xff\xff\xff",
        b"\x00\x02" + msgpack.packb(["g" * 5000]),
    ],
    ids=bytes.hex,
)
def test_invalid_keys_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_key(data)


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        (GroupKey("g"), [2, "consumer", 1, "", "", True, 0, []]),
        (GroupKey("g"), [1, "consumer", 1, "", "", True, 0]),
        (GroupKey("g"), [1, "consumer", "1", "", "", True, 0, []]),
        (GroupKey("g"), [1, "consumer", 1, "", "", True, 0, [["m"]]]),
        (GroupKey("g"), [1, "consumer", 1, "", "", True, 0, [["m", None, "", "", 1, 1, True, b"", [["range"]]]]]),
        (OffsetKey("g", TOPIC_ID, 1), [1, 1, 1, 1, 1]),
        (OffsetKey("g", TOPIC_ID, 1), [3, 1, 1, "", 1]),
        (InstanceKey("g", "i"), [1, []]),
        (InstanceKey("g", "i"), {}),
        (InstanceKey("g", "i"), 1),
        (PendingOffsetKey("g", 9, TOPIC_ID, 1), [1, 1, 1, "", 1]),
        (GroupProducerKey("g", 9), [1, 1, 1, 1, 1, ""]),
    ],
    ids=str,
)
def test_invalid_record_values_are_refused(key: Key, raw: object) -> None:
    with pytest.raises(FormatError):
        decode_value(key, msgpack.packb(raw))


@FEW
@given(KEYS, st.binary(max_size=40))
def test_any_bytes_are_a_value_or_raise_a_format_error(key: Key, data: bytes) -> None:
    with suppress(FormatError):
        value = decode_value(key, data)
        assert value is None or decode_value(key, encode_value(value)) == value
    with suppress(FormatError):
        assert decode_key(encode_key(found := decode_key(b"\x00" + data))) == found


def test_records_are_bounded() -> None:
    key = OffsetKey("g", TOPIC_ID, 0)
    fits = OffsetRecord(Offset(1 << 62), 1 << 30, "x" * METADATA_BYTES_MAX, 1 << 62)
    assert decode_value(key, encode_value(fits)) == fits
    group = GroupRecord("consumer", 1, "range", "", True, 0, (_make_member(GROUP_BYTES_MAX),))
    for wrong in (fits._replace(metadata="x" * (METADATA_BYTES_MAX + 100)), {"x": bytes(INSTANCE_BYTES_MAX)}, group):
        with pytest.raises(InvalidArgument):
            encode_value(wrong)
    with pytest.raises(InvalidArgument):
        encode_key(GroupKey("g" * 5000))
    with pytest.raises(InvalidArgument):
        encode_value({"a set": {1}})
    with pytest.raises(FormatError):
        decode_value(key, bytes(GROUP_BYTES_MAX + 1))


def _make_member(size: int) -> MemberRecord:
    return MemberRecord("m", None, "", "", 1, 1, True, bytes(size), ())


class NextOffset(NamedTuple):
    """Record of a next release with one more field."""

    offset: Offset
    leader_epoch: int
    metadata: str
    committed_ms: int
    principal: str = ""


def test_a_later_field_is_written_once_the_level_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = OffsetRecord(Offset(7), 2, "", 1_000)
    before = encode_value(now)
    monkeypatch.setattr(records, "OffsetRecord", NextOffset)
    monkeypatch.setitem(records.LATER_FIELDS, (NextOffset, "principal"), 2)
    later: Any = NextOffset(*now)
    assert encode_value(later, 1) == before
    with pytest.raises(InvalidArgument, match="NextOffset needs feature level 2; the cluster runs at 1"):
        encode_value(later._replace(principal="bob"), 1)
    assert msgpack.unpackb(encode_value(later._replace(principal="bob"), 2)) == [1, 7, 2, "", 1_000, "bob"]


def test_missing_fields_get_their_defaults() -> None:
    assert records._make_record(NextOffset, [7, 2, "", 1_000]) == (7, 2, "", 1_000, "")
    with pytest.raises(FormatError):
        records._make_record(NextOffset, [7, 2, ""])


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (OffsetKey("g", TOPIC_ID, 1), [1, 7, 2, "", 1_000, "bob"], r"OffsetRecord.*length 4, got 5; if.*run a newer"),
        (GroupKey("g"), [1, "consumer", 1, "", "", True, 0, [], 9], r"GroupRecord.*length 7, got 8; if.*run a newer"),
    ],
)
def test_an_unknown_field_is_refused(key: Key, value: object, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        decode_value(key, msgpack.packb(value))
