"""Messages as bytes: decoding returns the encoded messages, and refuses anything else with a reason."""

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from raftlog.errors import FormatError
from raftlog.membership.digest import BUCKETS
from raftlog.membership.encoding import FRAME_BYTES_MAX, KINDS, decode, encode, fingerprint, payload_bytes_max
from raftlog.membership.member import INCARNATION_MAX, Address, Announcement, Claim, MemberState
from raftlog.membership.messages import (
    Ack,
    ClaimRequest,
    DigestBuckets,
    DigestEntries,
    DigestEntry,
    DigestRoot,
    Message,
    Nack,
    Ping,
    PingRequest,
)
from tests.membership.gossip import ALIVE, DEAD, claim

OURS = fingerprint("ours")

SEQUENCES = st.integers(0, 2**32 - 1)
NODES = st.integers(0, 2**31 - 1)
DISKS = st.binary(min_size=16, max_size=16)
HOSTS = st.text("abcdefghijklmnopqrstuvwxyzü.:-0123456789", min_size=1, max_size=100)
PORTS = st.integers(1, 65_535)
HASHES = st.integers(0, 2**64 - 1)
INCARNATIONS = st.integers(0, INCARNATION_MAX)
ADDRESSES = st.builds(Address, HOSTS, PORTS)


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    incarnation, state = draw(INCARNATIONS), draw(st.sampled_from(MemberState))
    said_at = incarnation if state is ALIVE else draw(st.integers(0, incarnation))
    words = Announcement(said_at, draw(ADDRESSES), draw(st.binary(max_size=400)))
    about = words if state is ALIVE or draw(st.booleans()) else None
    return Claim(draw(NODES), draw(DISKS), incarnation, state, draw(NODES), draw(SEQUENCES), about)


ENTRIES = st.builds(DigestEntry, NODES, INCARNATIONS, st.integers(0, 3), INCARNATIONS, HASHES)
DATAGRAM_MESSAGES = st.one_of(
    st.builds(Ping, SEQUENCES, NODES, DISKS),
    st.builds(Ack, SEQUENCES),
    st.builds(Nack, SEQUENCES),
    st.builds(PingRequest, SEQUENCES, NODES, DISKS, HOSTS, PORTS),
    claims(),
)
MESSAGES = st.one_of(
    DATAGRAM_MESSAGES,
    st.builds(DigestRoot, HASHES),
    st.builds(DigestBuckets, st.tuples(*[HASHES] * BUCKETS)),
    st.builds(
        DigestEntries, st.lists(st.integers(0, BUCKETS - 1)).map(tuple), st.lists(ENTRIES, max_size=5).map(tuple)
    ),
    st.builds(ClaimRequest, st.lists(NODES).map(tuple)),
)


@given(st.lists(MESSAGES, max_size=4))
def test_encoded_messages_are_decoded(messages: list[Message]) -> None:
    assert decode(encode(OURS, messages), OURS) == messages


@given(st.lists(DATAGRAM_MESSAGES, max_size=4))
def test_a_datagram_fits_into_its_computed_bound(messages: list[Message]) -> None:
    assert len(encode(OURS, messages)) <= payload_bytes_max(messages)


@given(st.binary(max_size=200))
@example(b"")
@example(b"\x91" * 100_000)
@example(b"\xdd\xff\xff\xff\xff")
@example(b"\x81\xa1a\x01")
def test_garbage_is_a_format_error(payload: bytes) -> None:
    with pytest.raises(FormatError, match="gossip"):
        decode(payload, OURS)


@given(claims(), st.data())
def test_a_truncated_payload_is_a_format_error(told: Claim, data: st.DataObject) -> None:
    payload = encode(OURS, [Ack(1), told])
    with pytest.raises(FormatError):
        decode(payload[: data.draw(st.integers(0, len(payload) - 1))], OURS)


def test_a_trailing_byte_is_a_format_error() -> None:
    with pytest.raises(FormatError):
        decode(encode(OURS, [Ack(1)]) + b"\x00", OURS)


def test_another_cluster_is_refused() -> None:
    with pytest.raises(FormatError, match="another cluster"):
        decode(encode(fingerprint("theirs"), [Ack(1)]), OURS)


def test_a_frame_past_the_bound_is_refused() -> None:
    with pytest.raises(FormatError, match="at most 262,144"):
        decode(bytes(FRAME_BYTES_MAX + 1), OURS)


GOOD = claim(1, ALIVE, 5)
BAD_FIELDS = {
    "node id": (1, -1),
    "disk": (2, b"short"),
    "incarnation": (3, 2**63),
    "state": (4, 4),
    "by": (5, "me"),
    "age": (6, 1.0),
    "about": (7, True),
    "host": (8, ""),
    "port": (9, 0),
    "description": (10, bytes(401)),
}


@pytest.mark.parametrize("what", BAD_FIELDS)
def test_a_claim_with_a_wrong_field_is_refused(what: str) -> None:
    position, value = BAD_FIELDS[what]
    [_, fields] = msgpack.unpackb(encode(OURS, [GOOD]))
    fields[position] = value
    with pytest.raises(FormatError, match=f"field {position - 1} of a claim"):
        decode(msgpack.packb([OURS, fields]), OURS)


def test_a_claim_needs_a_live_source_at_that_incarnation() -> None:
    older = GOOD._replace(about=GOOD.about and GOOD.about._replace(incarnation=4))
    for wrong in (GOOD._replace(about=None), older):
        with pytest.raises(FormatError, match="alive"):
            decode(encode(OURS, [wrong]), OURS)
    decode(encode(OURS, [older._replace(state=DEAD)]), OURS)


@pytest.mark.parametrize(
    "listed", [[], [1], [99, 1], ["ping", 1], [True, 1], [KINDS[Ack]], [KINDS[Ack], 1, 2], 7, None]
)
def test_a_message_of_another_shape_is_refused(listed: object) -> None:
    with pytest.raises(FormatError):
        decode(msgpack.packb([OURS, listed]), OURS)


@pytest.mark.parametrize(
    "listed",
    [
        [KINDS[DigestBuckets], [0] * (BUCKETS - 1)],
        [KINDS[DigestEntries], [BUCKETS], []],
        [KINDS[DigestEntries], [0], [[1, 2, 3]]],
        [KINDS[DigestEntries], [0], [7]],
        [KINDS[ClaimRequest], [0] * 10_000],
        [KINDS[ClaimRequest], 1],
        [KINDS[DigestRoot], -1],
    ],
)
def test_a_digest_of_another_shape_is_refused(listed: object) -> None:
    with pytest.raises(FormatError):
        decode(msgpack.packb([OURS, listed]), OURS)


def test_message_kinds_have_distinct_numbers() -> None:
    assert sorted(KINDS.values()) == list(range(1, 10))
