"""Descriptions that brokers send by gossip: they fit their bound, can be decoded, and other data is refused."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from raftlog.errors import FormatError
from raftlog.partitions.gossip.description import DESCRIPTION_BYTES_MAX, Description, decode, differs, encode
from raftlog.values.brokers import BrokerLoad

NUMBERS = st.integers(0, (1 << 63) - 1)
LOADS = st.builds(BrokerLoad, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
PLAIN = Description("a:1", "b:2", "c:3", "host", "rack", "0.2.0", BrokerLoad(1, 2, 3, 4, 5))


@given(st.builds(Description, *[st.text(max_size=120)] * 6, LOADS))
def test_a_description_always_fits_and_is_decoded_unchanged(described: Description) -> None:
    encoded = encode(described)
    assert len(encoded) <= DESCRIPTION_BYTES_MAX
    read = decode(encoded)
    assert read.load == described.load
    for said, text in zip(read[:-1], described[:-1], strict=True):
        assert said in (text, ""), "a text is sent whole or not at all"


def test_a_short_description_is_encoded_completely() -> None:
    assert decode(encode(PLAIN)) == PLAIN


def test_without_space_the_addresses_for_brokers_are_kept() -> None:
    long = "x" * 100
    read = decode(encode(Description(long, long, long, long, long, "0.2.0", BrokerLoad(*[(1 << 63) - 1] * 5))))
    assert (read.http, read.rpc, read.gossip, read.version) == (long, long, long, "0.2.0")
    assert read.rack == read.host_label == ""


def test_a_longer_description_of_a_later_release_is_decoded() -> None:
    fields = [*PLAIN[:-1], [*astuple(PLAIN.load), 6], "more"]
    assert decode(msgpack.packb(fields)) == PLAIN


def test_missing_fields_get_their_defaults() -> None:
    assert decode(msgpack.packb([*PLAIN[:-1]])) == PLAIN._replace(load=BrokerLoad())
    assert decode(msgpack.packb([*PLAIN[:-1], [1, 2]])) == PLAIN._replace(load=BrokerLoad(1, 2))


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        {"http": "a:1"},
        [*PLAIN[:5]],
        [*PLAIN[:-1], 7],
        [*PLAIN[:-1], [1, 2, 3, 4, -2]],
        [*PLAIN[:-1], [1, 2, 3, 4, True]],
        [1, *PLAIN[1:-1], list(astuple(PLAIN.load))],
    ],
)
def test_invalid_descriptions_are_refused(fields: object) -> None:
    with pytest.raises(FormatError):
        decode(msgpack.packb(fields))


@given(st.binary(max_size=DESCRIPTION_BYTES_MAX + 10))
def test_garbage_is_refused_or_decoded(garbage: bytes) -> None:
    try:
        found = decode(garbage)
    except FormatError:
        return
    assert decode(encode(found)) == found


def test_a_load_differs_from_a_tenth_on() -> None:
    told = BrokerLoad(100, 10, 1_000, 2_000, 0)
    assert not differs(told, told)
    assert not differs(told.copy_with(replicas=110, disk_free=901), told)
    assert differs(told.copy_with(replicas=111), told)
    assert differs(told.copy_with(leaders=12), told)
    assert differs(told.copy_with(bytes_in_per_s=1), told)
