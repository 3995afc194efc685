"""Configurations and no-ops encoded as batches, and stored batches decoded as Raft entries."""

import struct
import uuid

import pytest

from raftlog.errors import FormatError
from raftlog.raft import Configuration, EntryKind, ReplicaId
from raftlog.records import ControlKind, build_batch, build_control_batch, crc_matches, read_control, read_header, stamp
from raftlog.runtime.log.control_entries import (
    BatchPayloads,
    build_no_op_batch,
    configuration_of_roll,
    decode_configuration,
    encode_configuration,
    entry_of,
    is_control,
    member_of,
    replica_of,
)
from raftlog.storage.roll import Roll, encode_roll
from raftlog.types import Index, NodeId, Offset, Term

REPLICAS = tuple(ReplicaId(NodeId(number), uuid.UUID(int=number << 64)) for number in range(1, 6))
JOINT = Configuration(Index(9), REPLICAS[:3], REPLICAS[4:], REPLICAS[1:4])


def test_a_configuration_survives_encoding() -> None:
    payload = encode_configuration(JOINT, Index(4))
    assert decode_configuration(payload, Index(9)) == (JOINT, 4)
    assert len(payload) == 9 + 3 * 2 + 7 * 20
    assert payload[:11] == struct.pack(">BQH", 1, 4, 3)


def test_an_invalid_configuration_is_refused() -> None:
    payload = encode_configuration(JOINT, Index(4))
    for length in range(len(payload)):
        with pytest.raises(FormatError, match="cannot be read"):
            decode_configuration(payload[:length], Index(9))
    with pytest.raises(FormatError, match="of which"):
        decode_configuration(payload + b"\0", Index(9))
    with pytest.raises(FormatError, match="version 2"):
        decode_configuration(b"\x02" + payload[1:], Index(9))


def test_members_and_replica_ids_convert_both_ways() -> None:
    for replica in REPLICAS:
        assert replica_of(member_of(replica)) == replica


def test_a_roll_has_the_current_configuration() -> None:
    members = [tuple(map(member_of, group)) for group in (JOINT.voters, JOINT.learners, JOINT.outgoing)]
    roll = Roll(uuid.UUID(int=1), 20, 1, 0, -1, 5, 9, *members)
    assert configuration_of_roll(roll) == JOINT


def test_entries_have_their_kind_and_data_is_never_decoded() -> None:
    payloads = BatchPayloads(lambda: 1234)
    made = payloads.configuration(JOINT, Index(4))
    entry = entry_of(Index(9), Term(3), made.payload)
    assert (entry.kind, entry.configuration, entry.size_bytes) == (EntryKind.CONFIGURATION, JOINT, made.size_bytes)
    no_op = payloads.no_op()
    assert entry_of(Index(5), Term(3), memoryview(no_op.payload)).kind is EntryKind.NO_OP
    assert no_op.payload == build_no_op_batch(1234)
    roll = build_control_batch(
        ControlKind.ROLL, encode_roll(Roll(uuid.UUID(int=1), 1, 0, 0, -1, 5)), 5, next_offset=Offset(0)
    )
    assert entry_of(Index(1), Term(0), roll).kind is EntryKind.DATA
    data = memoryview(bytes(build_batch([b"x"])))
    garbled = bytes(data[:61]) + b"\xff" * (len(data) - 61)
    assert entry_of(Index(2), Term(1), garbled) == (2, 1, EntryKind.DATA, len(data), garbled, None)


def test_control_batches_take_no_offset_and_are_stamped_in_place() -> None:
    for batch in (build_no_op_batch(77), BatchPayloads(lambda: 77).configuration(JOINT, Index(4)).payload):
        assert type(batch) is bytearray
        stamp(batch, Offset(50), Term(6))
        header = read_header(batch)
        assert (header.base_offset, header.next_offset, header.leader_epoch, header.max_timestamp) == (50, 50, 6, 77)
        assert is_control(batch)
        assert crc_matches(batch, header)
        assert read_control(batch)[1][0] == 1
