"""Encoded requests: their bytes, refusals, and that each is applied once however often it is proposed."""

from typing import Any
from unittest.mock import patch
from uuid import UUID

import msgpack  # type: ignore[import-untyped]  # it has no annotations
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import FormatError, InvalidArgument, OutcomeUnknown, TopicExists
from raftlog.partitions.controller.machine import (
    AllocateProducerIds,
    Command,
    CommandRequest,
    CreateTopic,
    DeleteTopic,
    decode_request,
    encode_request,
    request,
    state,
)
from raftlog.partitions.controller.machine.request import KINDS
from raftlog.types import Index, NodeId
from tests.controller.machine.fleet import (
    BOOTSTRAP,
    create,
    disk_uuid,
    make_cluster,
    register,
    replica,
    state_contents,
    topic_id,
)
from tests.controller.machine.strategies import commands

CREATION = CommandRequest(UUID(int=7), Index(3), create("t", 1, (1, 2, 3), (2, 3, 1), configs={"retention.ms": "5"}))


@given(commands, st.uuids(), st.integers(0, (1 << 63) - 1).map(Index))
def test_a_request_is_decoded_from_its_bytes(command: Command, request_id: UUID, basis: Index) -> None:
    made = CommandRequest(request_id, basis, command)
    body = encode_request(made)
    assert decode_request(body) == made
    assert decode_request(memoryview(body)) == made
    assert encode_request(decode_request(body)) == body


def test_equal_requests_have_equal_bytes() -> None:
    command = CREATION.command
    assert isinstance(command, CreateTopic)
    copies = tuple(tuple(replica(member.node_id) for member in row) for row in command.partitions)
    other = CreateTopic(command.name, command.topic_id, copies, command.configs, command.created_ms)
    assert encode_request(CREATION._replace(command=other)) == encode_request(CREATION)
    assert encode_request(CREATION).hex() == (
        "950105c4100000000000000000000000000000000703"
        "95a174c41000000000000000000000000000007001"
        "9293" + "".join(f"920{node}c410{0xD000 + node:032x}" for node in (1, 2, 3)) + "92930001029301020091"
        "92ac726574656e74696f6e2e6d73a135cd1388"
    )


@settings(max_examples=120)
@given(st.binary(max_size=80))
def test_garbage_raises_a_format_error(body: bytes) -> None:
    with pytest.raises(FormatError):
        decode_request(body)


@settings(max_examples=160)
@given(st.data())
def test_a_damaged_request_raises_a_format_error_or_is_another_request(data: st.DataObject) -> None:
    body = bytearray(encode_request(CREATION))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(decode_request(body), CommandRequest)
    except FormatError:
        return


def test_every_field_refuses_values_of_other_types() -> None:
    texts: list[Any] = ["x" * 300, "", b"", b"x" * 16]
    lists: list[Any] = [[], [1], {}, [[[]], [[]]], [[[[], b""]], [[0]]]]
    junk: list[Any] = [None, True, -1, 1 << 63, 1.5, *texts, *lists]
    for made in (CREATION.command, register(1), BOOTSTRAP, DeleteTopic("t", topic_id(1))):
        envelope = msgpack.unpackb(encode_request(CommandRequest(UUID(int=1), Index(1), made)))
        for place in range(len(envelope[4])):
            for value in junk:
                packed = [*envelope[:4], [*envelope[4][:place], value, *envelope[4][place + 1 :]]]
                try:
                    other = decode_request(msgpack.packb(packed))
                except FormatError:
                    continue
                assert msgpack.packb(packed) == encode_request(other), (place, value)


def test_every_truncated_request_raises_a_format_error() -> None:
    body = encode_request(CREATION)
    for length in range(len(body)):
        with pytest.raises(FormatError):
            decode_request(body[:length])
    with pytest.raises(FormatError):
        decode_request(body + b"\0")


def test_unknown_settings_are_named() -> None:
    envelope = msgpack.unpackb(encode_request(CREATION))
    for place, value, words in ((0, 2, "format 2"), (1, 77, "command 77")):
        with pytest.raises(FormatError, match=words):
            decode_request(msgpack.packb([*envelope[:place], value, *envelope[place + 1 :]]))
    wrong: list[tuple[int, Any]] = [(0, True), (1, True), (2, b"short"), (3, -1), (3, 1 << 63), (4, None)]
    for place, value in wrong:
        with pytest.raises(FormatError):
            decode_request(msgpack.packb([*envelope[:place], value, *envelope[place + 1 :]]))
    numbers = [kind.number for kind in KINDS.values()]
    assert len(set(numbers)) == len(numbers)


def test_a_too_large_length_is_refused_before_allocation() -> None:
    body = encode_request(CREATION)[:1] + b"\xdd\xff\xff\xff\xff" * 60
    with pytest.raises(FormatError):
        decode_request(body)


def test_unknown_topic_settings_are_not_proposed_but_applied() -> None:
    for configs in ({"no.such.setting": "1"}, {"retention.ms": "soon"}):
        scribe = make_cluster()
        unknown = scribe.request(create("t", 1, configs=configs))
        with pytest.raises(InvalidArgument):
            encode_request(unknown)
        assert scribe.state.apply(unknown, Index(100)).error is None


def test_a_command_of_a_higher_feature_level_is_refused() -> None:
    scribe = make_cluster()
    with patch.dict(request.KINDS, {CreateTopic: KINDS[CreateTopic]._replace(feature_level=2)}):
        assert "feature level 2" in str(scribe.apply_refused(create("t", 1)))
    scribe.apply(create("t", 1))


def test_a_request_is_applied_once() -> None:
    scribe = make_cluster()
    ask = scribe.request(AllocateProducerIds(NodeId(1), disk_uuid(1), 1, 10))
    first = scribe.put(ask)
    assert not first.is_repeated
    hashed = scribe.state.next_producer_id
    again = scribe.put(ask)
    assert (again.value, again.error, again.is_repeated) == (first.value, None, True)
    assert scribe.state.next_producer_id == hashed == 10


def test_a_repeated_request_gets_its_first_refusal_again() -> None:
    scribe = make_cluster()
    scribe.apply(create("t", 1))
    late = scribe.request(create("t", 2))
    assert isinstance(scribe.put(late).error, TopicExists)
    scribe.apply(DeleteTopic("t", topic_id(1)))
    again = scribe.put(late)
    assert isinstance(again.error, TopicExists)
    assert again.is_repeated
    assert scribe.state.topic_names() == []


def test_a_request_older_than_the_kept_answers_is_not_applied() -> None:
    with patch.object(state, "ANSWERS_MAX", 4):
        scribe = make_cluster()
        ask = scribe.request(create("t", 1))
        never = scribe.request(create("u", 2))._replace(request_id=UUID(int=1 << 90))
        scribe.put(ask)
        for _ in range(4):
            scribe.apply(AllocateProducerIds(NodeId(1), disk_uuid(1), 1, 1))
        assert ask.request_id not in scribe.state.answered
        scribe.apply(DeleteTopic("t", topic_id(1)))
        before = state_contents(scribe.state)
        for request_ in (ask, never):
            answer = scribe.put(request_)
            assert isinstance(answer.error, OutcomeUnknown)
        assert state_contents(scribe.state) == before
        assert len(scribe.state.answered) == 4
        assert scribe.put(never._replace(basis_index=scribe.state.applied_index)).error is None


def test_a_basis_ahead_of_the_log_is_refused() -> None:
    scribe = make_cluster()
    ahead = scribe.request(create("t", 1))._replace(basis_index=Index(scribe.last_index + 1))
    assert isinstance(scribe.put(ahead).error, InvalidArgument)


def test_entries_are_applied_in_order() -> None:
    scribe = make_cluster()
    with pytest.raises(AssertionError, match="comes after"):
        scribe.state.apply(CREATION, scribe.last_index)
    scribe.state.advance(Index(50))
    with pytest.raises(AssertionError, match="goes back"):
        scribe.state.advance(Index(49))
    with pytest.raises(AssertionError, match="comes after"):
        scribe.state.apply(CREATION, Index(50))
