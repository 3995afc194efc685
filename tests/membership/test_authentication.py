"""The seal on datagrams: every kind of foreign or forged datagram is refused with its reason."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.membership.authentication import (
    HEADER_BYTES,
    MAGIC,
    OVERHEAD_BYTES,
    AuthenticationError,
    RefusedDatagram,
    Seal,
    SenderIdentity,
)
from raftlog.membership.keys import GossipKeys
from raftlog.types import NodeId

CLUSTER = uuid.UUID(int=0xC1)
KEYS = GossipKeys((b"keys of one cluster, long enough",))
BYTES_MAX = 1_200
DISKS = {1: uuid.UUID(int=1 << 100), 2: uuid.UUID(int=2 << 100)}


def seal_of(
    node: int, *, cluster: uuid.UUID = CLUSTER, keys: GossipKeys = KEYS, life: int = 1, disk: uuid.UUID | None = None
) -> Seal:
    return Seal(SenderIdentity(cluster, NodeId(node), disk or DISKS[node], life), keys)


def refusal_of(receiver: Seal, datagram: bytes) -> RefusedDatagram:
    with pytest.raises(AuthenticationError) as caught:
        receiver.open(datagram, BYTES_MAX)
    return caught.value.reason


def test_sealed_data_is_opened() -> None:
    opened = seal_of(2).open(seal_of(1).seal(b"hello"), BYTES_MAX)
    assert opened == (1, b"hello")


def test_the_layout_is_as_documented() -> None:
    datagram = seal_of(1, life=7).seal(b"body")
    assert datagram[:4] == b"RLG\x01"
    assert datagram[4:20] == CLUSTER.bytes
    assert int.from_bytes(datagram[20:24]) == 1
    assert datagram[24:32] == DISKS[1].bytes[:8]
    assert int.from_bytes(datagram[32:40]) == 7
    assert int.from_bytes(datagram[40:48]) == 1
    assert datagram[48:-16] == b"body"
    assert (HEADER_BYTES, OVERHEAD_BYTES) == (48, 64)


def test_a_forged_tag_is_refused() -> None:
    datagram = bytearray(seal_of(1).seal(b"hello"))
    datagram[-1] ^= 1
    assert refusal_of(seal_of(2), bytes(datagram)) is RefusedDatagram.FORGED


def test_another_key_is_refused() -> None:
    assert refusal_of(seal_of(2), seal_of(1, keys=GossipKeys((b"k" * 32,))).seal(b"")) is RefusedDatagram.FORGED


def test_a_changed_byte_anywhere_is_refused() -> None:
    datagram = seal_of(1).seal(b"hello")
    receiver = seal_of(2)
    for at in range(len(datagram)):
        changed = bytearray(datagram)
        changed[at] ^= 0x10
        assert refusal_of(receiver, bytes(changed)) in (
            RefusedDatagram.FORGED,
            RefusedDatagram.FOREIGN,
            RefusedDatagram.VERSION,
            RefusedDatagram.CLUSTER,
        )
    assert receiver.open(datagram, BYTES_MAX).body == b"hello", "no refused datagram uses up its number"


def test_every_truncation_is_refused() -> None:
    datagram = seal_of(1).seal(b"hello")
    for length in range(len(datagram)):
        assert refusal_of(seal_of(2), datagram[:length]) in (RefusedDatagram.TRUNCATED, RefusedDatagram.FORGED)


def test_an_oversize_datagram_is_refused_before_its_tag_is_computed() -> None:
    assert refusal_of(seal_of(2), seal_of(1).seal(bytes(BYTES_MAX))) is RefusedDatagram.OVERSIZE


def test_a_replayed_datagram_is_refused() -> None:
    receiver, datagram = seal_of(2), seal_of(1).seal(b"hello")
    receiver.open(datagram, BYTES_MAX)
    assert refusal_of(receiver, datagram) is RefusedDatagram.REPLAYED


def test_another_cluster_is_refused() -> None:
    other = uuid.UUID(int=0xC2)
    assert refusal_of(seal_of(2), seal_of(1, cluster=other).seal(b"")) is RefusedDatagram.CLUSTER


def test_another_version_is_refused() -> None:
    datagram = bytearray(seal_of(1).seal(b""))
    datagram[3] = 2
    assert refusal_of(seal_of(2), bytes(datagram)) is RefusedDatagram.VERSION


def test_a_datagram_reflected_to_its_sender_is_refused() -> None:
    seal = seal_of(1)
    assert refusal_of(seal, seal.seal(b"hello")) is RefusedDatagram.REFLECTED


def test_an_old_boot_epoch_is_refused_after_a_newer_one() -> None:
    receiver, old = seal_of(2), seal_of(1, life=3).seal(b"old")
    receiver.open(seal_of(1, life=4).seal(b"new"), BYTES_MAX)
    assert refusal_of(receiver, old) is RefusedDatagram.OLD_LIFE


def test_messages_of_our_earlier_boot_epoch_are_refused() -> None:
    assert refusal_of(seal_of(1, life=4), seal_of(1, life=3).seal(b"")) is RefusedDatagram.OLD_LIFE


def test_another_disk_under_our_node_id_is_accepted_for_the_report() -> None:
    opened = seal_of(1).open(seal_of(1, disk=uuid.UUID(int=9 << 100)).seal(b"me too"), BYTES_MAX)
    assert opened.node_id == 1


def test_keys_can_be_rotated_without_an_interruption() -> None:
    old, new = b"o" * 32, b"n" * 32
    before, adding, moved, after = (GossipKeys(keys) for keys in ((old,), (old, new), (new, old), (new,)))
    for one, other in ((before, adding), (adding, moved), (moved, after)):
        assert seal_of(2, keys=one).open(seal_of(1, keys=other).seal(b"x"), BYTES_MAX)
        assert seal_of(2, keys=other).open(seal_of(1, keys=one).seal(b"x"), BYTES_MAX)
    assert refusal_of(seal_of(2, keys=before), seal_of(1, keys=after).seal(b"x")) is RefusedDatagram.FORGED


@given(st.binary(max_size=BYTES_MAX + 50))
def test_garbage_is_refused(garbage: bytes) -> None:
    refusal_of(seal_of(2), garbage)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_garbage_after_a_valid_beginning_is_refused(garbage: bytes, tail: bytes) -> None:
    datagram = seal_of(1).seal(b"hello")
    assert refusal_of(seal_of(2), MAGIC + b"\x01" + CLUSTER.bytes + garbage) in (
        RefusedDatagram.FORGED,
        RefusedDatagram.TRUNCATED,
    )
    assert not tail or refusal_of(seal_of(2), datagram + tail) in (RefusedDatagram.FORGED, RefusedDatagram.OVERSIZE)


def test_the_repr_of_keys_hides_them() -> None:
    assert repr(KEYS) == str(KEYS) == "<1 keys of gossip>"
