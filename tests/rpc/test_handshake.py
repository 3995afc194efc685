"""Accepted and refused handshakes, and the remembered state of a disk."""

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.runtime.rpc.errors import BadFrame
from raftlog.runtime.rpc.frames.frame import HEAD_SIZE
from raftlog.runtime.rpc.frames.packing import pack_flat, unpack_flat
from raftlog.runtime.rpc.handshake import (
    NONCE_SIZE,
    NUMBER_MAX,
    PROTOCOL_VERSION,
    UNPROVEN,
    Channel,
    HandshakeRefusal,
    Hello,
    KnownPeer,
    PeerIdentity,
    Reason,
    check_peer,
    check_version,
    decode_hello,
    decode_refusal,
    encode_hello,
    encode_refusal,
    feature_level,
    is_outsider,
    pack_hello,
)
from raftlog.runtime.rpc.memory import PeerMemory, PeerRecord
from raftlog.runtime.transport import ProcessHeartbeat
from raftlog.types import FEATURE_LEVEL_KNOWN, NodeId

DISK, OTHER_DISK = uuid.UUID(int=1), uuid.UUID(int=2)
BOOT_ID, OTHER_BOOT_ID = b"boot one", b"boot two"
US = Hello(
    PROTOCOL_VERSION,
    Channel.RAFT,
    b"our boot",
    PeerIdentity("blue", NodeId(1), uuid.UUID(int=9), 3, 50, "host-a"),
    b"a" * NONCE_SIZE,
)
THEM = Hello(
    PROTOCOL_VERSION,
    Channel.RAFT,
    BOOT_ID,
    PeerIdentity("blue", NodeId(2), DISK, 7, 100, "host-b", rpc_address="host-b:9001"),
    b"b" * NONCE_SIZE,
)


FUTURE = FEATURE_LEVEL_KNOWN + 1


def make_their_hello(*, boot_id: bytes = BOOT_ID, **changes: Any) -> Hello:
    return THEM._replace(boot_id=boot_id, identity=THEM.identity._replace(**changes))


@pytest.mark.parametrize(
    ("theirs", "known", "reason", "words"),
    [
        (make_their_hello(feature_level_min=FUTURE, feature_level_max=9), KnownPeer(), Reason.FEATURE_LEVEL, "upgrade"),
        (make_their_hello(feature_level_min=0, feature_level_max=0), KnownPeer(), Reason.FEATURE_LEVEL, "upgrade"),
        (make_their_hello(boot_id=US.boot_id, node_id=NodeId(1)), KnownPeer(), Reason.SELF, "leads to node 1 itself"),
        (THEM._replace(channel=Channel.BULK), KnownPeer(), Reason.WRONG_CHANNEL, "BULK"),
        (
            make_their_hello(cluster_id="green"),
            KnownPeer(),
            Reason.CLUSTER_ID,
            "cluster blue and node 2 to cluster green",
        ),
        (
            make_their_hello(node_id=NodeId(1)),
            KnownPeer(),
            Reason.OWN_NODE_ID,
            "host-a and at host-b: give one of them another",
        ),
        (make_their_hello(node_id=NodeId(3)), KnownPeer(), Reason.WRONG_NODE, "node 2 was expected"),
        (THEM, KnownPeer(assigned_disk=OTHER_DISK), Reason.WRONG_DISK, "once the controller has taken it"),
        (THEM, KnownPeer(other_node=NodeId(4)), Reason.WRONG_DISK, "belongs to node 4"),
        (THEM, KnownPeer(is_retired=True), Reason.RETIRED_DISK, "was replaced or removed"),
        (THEM, KnownPeer(live_disk=OTHER_DISK), Reason.NODE_ID_TWICE, "node id 2 is used twice"),
        (THEM, KnownPeer(boot_epoch=8), Reason.STALE_BOOT_EPOCH, "boot epoch 7, and 8 was seen"),
        (THEM, KnownPeer(boot_epoch=6, journal_sequence=101), Reason.STALE_JOURNAL, "sequence 100, and 101 was"),
        (THEM, KnownPeer(boot_epoch=7, journal_sequence=101), Reason.STALE_JOURNAL, "it lost writes"),
        (THEM, KnownPeer(boot_epoch=7, boot_id=OTHER_BOOT_ID), Reason.COPIED_DISK, "two processes"),
    ],
    ids=lambda value: value.name if isinstance(value, Reason) else "",
)
def test_refusals_name_the_next_step(theirs: Hello, known: KnownPeer, reason: Reason, words: str) -> None:
    refusal = check_peer(US, theirs, known, NodeId(2))
    assert refusal is not None
    assert refusal.reason is reason
    assert words in refusal.message


def test_another_version_is_refused_before_any_proof() -> None:
    refusal = check_version(US, THEM._replace(protocol_version=PROTOCOL_VERSION + 1))
    assert refusal is not None
    assert refusal.reason is Reason.PROTOCOL_VERSION
    assert "same release" in refusal.message
    assert refusal.reason in UNPROVEN
    assert check_version(US, THEM) is None


@pytest.mark.parametrize(("version", "fields"), [(1, 11), (2, 13)])
def test_earlier_versions_are_refused_with_a_message(version: int, fields: int) -> None:
    hello = decode_hello(pack_flat([version, *unpack_flat(pack_hello(THEM), 99)[1:fields]]))
    refusal = check_version(US, hello)
    assert refusal is not None
    assert f"version {version}" in refusal.message


@pytest.mark.parametrize(
    ("theirs", "known"),
    [
        (THEM, KnownPeer()),
        (make_their_hello(cluster_id=None), KnownPeer()),
        (THEM, KnownPeer(assigned_disk=DISK, live_disk=DISK)),
        (THEM, KnownPeer(boot_epoch=6, journal_sequence=100, boot_id=OTHER_BOOT_ID)),
        (THEM, KnownPeer(boot_epoch=7, journal_sequence=100)),
        (make_their_hello(feature_level_min=1, feature_level_max=FUTURE), KnownPeer()),
        (make_their_hello(feature_level_min=FEATURE_LEVEL_KNOWN, feature_level_max=FUTURE), KnownPeer()),
        (make_their_hello(feature_level_min=0, feature_level_max=1), KnownPeer()),
    ],
    ids=[
        "unknown",
        "no cluster yet",
        "known disk",
        "next start",
        "same start after ours",
        "newer release",
        "newest of our levels",
        "oldest of our levels",
    ],
)
def test_peers_with_matching_hellos_are_accepted(theirs: Hello, known: KnownPeer) -> None:
    assert check_peer(US, theirs, known, NodeId(2)) is None


@pytest.mark.parametrize(
    ("channel", "assigned", "expected"),
    [
        (Channel.PROBE, OTHER_DISK, True),
        (Channel.PROBE, DISK, False),
        (Channel.PROBE, None, False),
        (Channel.RAFT, OTHER_DISK, False),
    ],
)
def test_a_process_with_an_unassigned_disk_is_an_outsider_only_in_probes(
    channel: Channel, assigned: uuid.UUID | None, expected: bool
) -> None:
    assert is_outsider(THEM._replace(channel=channel), KnownPeer(assigned_disk=assigned)) is expected


@pytest.mark.parametrize(("assigned", "expected"), [(DISK, True), (OTHER_DISK, False), (None, False)])
def test_a_refusal_states_whether_the_disk_is_a_member(assigned: uuid.UUID | None, expected: bool) -> None:
    refusal = check_peer(US, make_their_hello(cluster_id="green"), KnownPeer(assigned_disk=assigned), NodeId(2))
    assert refusal is not None
    assert (refusal.is_member, refusal.cluster_id) == (expected, "blue")


def test_heartbeats_may_overtake_a_handshake_of_the_same_process() -> None:
    """A second connection of a process may have an older journal sequence: its disk is no old copy."""
    assert check_peer(US, THEM, KnownPeer(boot_epoch=7, journal_sequence=105, boot_id=BOOT_ID)) is None


def test_the_feature_level_is_the_highest_common_one() -> None:
    assert feature_level(US.identity._replace(feature_level_max=4), THEM.identity._replace(feature_level_max=3)) == 3


# the bytes


def body_of(buffers: list[Any]) -> bytes:
    return b"".join(buffers)[HEAD_SIZE:]


texts = st.text(st.characters(categories=["L", "N"]), max_size=40)
numbers = st.integers(0, NUMBER_MAX)
identities = st.builds(
    PeerIdentity, st.none() | texts, numbers.map(NodeId), st.uuids(), numbers, numbers, texts, numbers, numbers, texts
)
hellos = st.builds(
    Hello,
    numbers,
    st.sampled_from(Channel),
    st.binary(min_size=8, max_size=8),
    identities,
    st.binary(min_size=NONCE_SIZE, max_size=NONCE_SIZE),
)


@settings(max_examples=40)
@given(hellos)
def test_hellos_round_trip(hello: Hello) -> None:
    assert decode_hello(body_of(encode_hello(pack_hello(hello)))) == hello


@settings(max_examples=60)
@given(hellos, st.integers(0, 12), st.none() | st.integers(-5, 2**64 - 1) | st.binary(max_size=300))
def test_hellos_with_a_field_of_a_wrong_type_are_refused(hello: Hello, at: int, field: int | bytes | None) -> None:
    fields = unpack_flat(pack_hello(hello), 99)
    fields[at] = field
    try:
        decode_hello(pack_flat(fields))
    except BadFrame:
        return
    assert type(field) in ({bytes, type(None)} if at == 3 else {bytes} if at in (2, 5, 8, 11, 12) else {int})
    assert not isinstance(field, int) or 0 <= field <= NUMBER_MAX


@pytest.mark.parametrize("at", [6, 7], ids=["boot epoch", "journal sequence"])
def test_a_number_above_the_bound_is_refused(at: int) -> None:
    """A stored number of this size would lock that disk out of its cluster."""
    fields = unpack_flat(pack_hello(THEM), 99)
    fields[at] = NUMBER_MAX
    decode_hello(pack_flat(fields))
    fields[at] = NUMBER_MAX + 1
    with pytest.raises(BadFrame):
        decode_hello(pack_flat(fields))


@settings(max_examples=40)
@given(st.binary(max_size=100))
def test_random_bytes_are_no_hello_and_no_refusal(body: bytes) -> None:
    with pytest.raises(BadFrame):
        decode_hello(body)
    try:
        decode_refusal(body)
    except BadFrame:
        return


def test_a_later_version_may_have_more_fields() -> None:
    fields = unpack_flat(pack_hello(THEM), 99)
    assert decode_hello(pack_flat([*fields, b"more"])) == THEM


def test_refusals_round_trip_and_cannot_forge_log_lines() -> None:
    refusal = HandshakeRefusal(Reason.CLUSTER_ID, "another cluster: correct it")
    assert decode_refusal(body_of(encode_refusal(refusal))) == refusal
    hostile = decode_refusal(pack_flat([77, b"a\nWARNING forged \x1b[2J" + b"x" * 5000]))
    assert hostile.reason is Reason.UNKNOWN
    assert hostile.message.startswith("a?WARNING forged ?[2J")
    assert len(hostile.message) == 1024


# memory


def test_a_retired_disk_is_remembered_as_retired() -> None:
    memory = PeerMemory(10)
    memory.is_retired = {DISK}.__contains__
    assert memory.find_record(NodeId(2), DISK).is_retired
    assert not memory.find_record(NodeId(2), OTHER_DISK).is_retired
    refusal = check_peer(US, THEM, memory.find_record(NodeId(2), DISK))
    assert refusal is not None
    assert refusal.reason is Reason.RETIRED_DISK


def test_the_remembered_state_of_a_disk_only_rises() -> None:
    memory = PeerMemory(10)
    memory.add_connection(THEM)
    memory.note_heartbeat(THEM, ProcessHeartbeat(DISK, 7, 130))
    memory.note_heartbeat(THEM, ProcessHeartbeat(DISK, 7, 120))
    memory.note_heartbeat(THEM, ProcessHeartbeat(DISK, 6, 900))
    memory.add_connection(make_their_hello(boot_epoch=5, journal_sequence=3))
    assert memory.find_record(NodeId(2), DISK) == KnownPeer(None, DISK, 7, 130, BOOT_ID)
    assert memory.records() == [PeerRecord(DISK, NodeId(2), 7, 130, BOOT_ID)]


def test_a_disk_counts_as_connected_until_its_last_connection_ends() -> None:
    memory = PeerMemory(10)
    memory.add_connection(THEM)
    memory.add_connection(THEM)
    memory.remove_connection(THEM)
    refusal = check_peer(US, make_their_hello(disk_uuid=OTHER_DISK), memory.find_record(NodeId(2), OTHER_DISK))
    assert refusal is not None
    assert refusal.reason is Reason.NODE_ID_TWICE
    memory.remove_connection(THEM)
    assert check_peer(US, make_their_hello(disk_uuid=OTHER_DISK), memory.find_record(NodeId(2), OTHER_DISK)) is None


def test_a_new_disk_is_accepted_once_it_is_assigned() -> None:
    memory = PeerMemory(10)
    memory.assign_disk(NodeId(2), OTHER_DISK)
    refusal = check_peer(US, THEM, memory.find_record(NodeId(2), DISK))
    assert refusal is not None
    assert refusal.reason is Reason.WRONG_DISK
    memory.assign_disk(NodeId(2), DISK)
    assert check_peer(US, THEM, memory.find_record(NodeId(2), DISK)) is None
    memory.assign_disk(NodeId(2), None)
    assert check_peer(US, make_their_hello(disk_uuid=OTHER_DISK), memory.find_record(NodeId(2), OTHER_DISK)) is None


def test_the_memory_of_peers_survives_our_restart() -> None:
    memory = PeerMemory(10)
    memory.add_connection(THEM)
    memory.note_heartbeat(THEM, ProcessHeartbeat(DISK, 7, 130))
    again = PeerMemory(10)
    again.restore(memory.records())
    known = again.find_record(NodeId(2), DISK)
    assert check_peer(US, THEM, known) is None, "the same process: its sequence was overtaken by its beats"
    copied, old = (
        check_peer(US, each, known)
        for each in (make_their_hello(boot_id=OTHER_BOOT_ID), make_their_hello(boot_epoch=8, boot_id=OTHER_BOOT_ID))
    )
    assert copied is not None
    assert copied.reason is Reason.COPIED_DISK
    assert old is not None
    assert old.reason is Reason.STALE_JOURNAL
    assert check_peer(US, make_their_hello(boot_epoch=8, boot_id=OTHER_BOOT_ID, journal_sequence=130), known) is None


def test_the_journal_sequence_of_an_unknown_process_is_checked() -> None:
    memory = PeerMemory(10)
    memory.restore([PeerRecord(DISK, NodeId(2), 7, 130, None)])
    refusal = check_peer(US, THEM, memory.find_record(NodeId(2), DISK))
    assert refusal is not None
    assert refusal.reason is Reason.STALE_JOURNAL
    assert check_peer(US, make_their_hello(journal_sequence=130), memory.find_record(NodeId(2), DISK)) is None
    memory.add_connection(make_their_hello(journal_sequence=130))
    assert memory.find_record(NodeId(2), DISK).boot_id == BOOT_ID


def test_each_start_of_a_peer_is_reported_once() -> None:
    memory = PeerMemory(10)
    met: list[PeerRecord] = []
    memory.on_start = lambda: met.extend(memory.records())
    for hello in (THEM, THEM, make_their_hello(boot_epoch=8, boot_id=OTHER_BOOT_ID), THEM):
        memory.add_connection(hello)
        memory.note_heartbeat(hello, ProcessHeartbeat(DISK, hello.identity.boot_epoch, 200))
    assert [(each.boot_epoch, each.boot_id) for each in met] == [(7, BOOT_ID), (8, OTHER_BOOT_ID)]


def test_the_memory_of_peers_is_bounded() -> None:
    memory = PeerMemory(2)
    for number in (1, 2, 1, 3):
        memory.add_connection(make_their_hello(disk_uuid=uuid.UUID(int=number)))
    assert [record.disk_uuid.int for record in memory.records()] == [1, 3]


def test_our_version_is_the_documented_one() -> None:
    assert PROTOCOL_VERSION == 3
