"""Bounds: send queue, bulk budget, pauses, logged protocol errors, settings; and addresses allowed for listening."""

import asyncio
import logging
import uuid
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import InvalidArgument
from raftlog.raft.messages import Heartbeat
from raftlog.runtime.rpc.addresses import check_reachable, is_loopback, resolve
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.endpoint import bounds_of_callers
from raftlog.runtime.rpc.frames.codec import TurnDecoder
from raftlog.runtime.rpc.frames.frame import FrameKind, FrameReader, encode_frame, join_buffers
from raftlog.runtime.rpc.handshake import Channel
from raftlog.runtime.rpc.protocol_errors import ProtocolErrors
from raftlog.runtime.rpc.send_queue import SendQueue
from raftlog.runtime.rpc.throttle import TokenBucket
from raftlog.runtime.rpc.traffic import Flow
from raftlog.runtime.transport import Envelope, ProcessHeartbeat
from raftlog.topic_config import KIB, MIB
from tests.rpc.messages import ME, append, heartbeat

DISK = uuid.UUID(int=1)
SMALL = RpcConfig(
    frame_bytes_max=64 * KIB,
    body_bytes_max=64 * KIB,
    header_bytes_max=KIB,
    turn_bytes=4 * KIB,
    send_queue_bytes_max=8 * KIB,
)


def take_all(queue: SendQueue) -> list[list[Envelope]]:
    """Take all envelopes, grouped by frames."""
    reader = FrameReader(bounds_of_callers(SMALL, Channel.RAFT), MIB)
    turns = []
    while queue:
        data = b"".join(queue.take(SMALL.turn_bytes))
        reader.get_buffer()[: len(data)] = data
        reader.advance(len(data))
        while (frame := reader.next_frame()) is not None:
            if frame.kind is FrameKind.TURN:
                turns.append(TurnDecoder().decode(frame.body, frame.payload, ME))
    assert queue.bytes == 0
    return turns


def test_all_messages_of_a_turn_are_one_frame() -> None:
    queue = SendQueue(SMALL, Flow())
    sent = [heartbeat(1), append(2, 100), heartbeat(3)]
    queue.add_envelopes(sent[:1])
    queue.add_envelopes(sent[1:])
    assert take_all(queue) == [sent]


def test_the_oldest_heartbeats_are_dropped_first() -> None:
    queue = SendQueue(SMALL, Flow())
    beats = [heartbeat(number) for number in range(20)]
    kept = [append(100, 2500), append(101, 2500)]
    queue.add_envelopes([*beats[:10], kept[0], *beats[10:]])
    queue.add_envelopes([kept[1]])
    assert queue.messages_dropped == 0
    late = append(102, 1200)
    queue.add_envelopes([late])
    left = [each for turn in take_all(queue) for each in turn]
    assert 0 < queue.messages_dropped == len(beats) - sum(type(each.message) is Heartbeat for each in left)
    assert left == [each for each in [*beats[:10], kept[0], *beats[10:], kept[1], late] if each in left]
    assert beats[-1] in left
    assert beats[0] not in left
    assert late in left


def test_without_heartbeats_the_new_message_is_dropped() -> None:
    queue = SendQueue(SMALL, Flow())
    old = [append(number, 3000) for number in range(2)]
    queue.add_envelopes(old)
    queue.add_envelopes([append(9, 3000)])
    queue.add_envelopes([heartbeat(1)] * 100)
    assert queue.bytes <= SMALL.send_queue_bytes_max
    assert queue.messages_dropped > 1
    assert [each for turn in take_all(queue) for each in turn if type(each.message) is not Heartbeat] == old


def test_a_message_above_the_bound_is_sent_alone_and_one_above_a_frame_never() -> None:
    queue = SendQueue(SMALL, Flow())
    large = append(1, 30 * KIB)
    queue.add_envelopes([append(2, 70 * KIB)])
    assert queue.messages_dropped == 1
    queue.add_envelopes([large])
    queue.add_envelopes([append(3, 10)])
    assert queue.messages_dropped == 2
    assert take_all(queue) == [[large]]


def test_a_message_above_a_frame_is_dropped_even_if_the_queue_has_room() -> None:
    queue = SendQueue(replace(SMALL, send_queue_bytes_max=128 * KIB), Flow())
    queue.add_envelopes([append(1, 61 * KIB)])
    assert queue.messages_dropped == 1
    assert not queue


def test_heartbeats_of_a_turn_that_fits_only_in_part_are_dropped_too() -> None:
    queue = SendQueue(SMALL, Flow())
    kept = [append(1, 5 * KIB), append(2, 2 * KIB)]
    queue.add_envelopes([heartbeat(number) for number in range(1_000)])
    assert 0 < queue.messages_dropped < 1_000
    queue.add_envelopes(kept)
    assert [each for turn in take_all(queue) for each in turn if type(each.message) is not Heartbeat] == kept


def test_messages_lost_with_their_connection_count_as_dropped() -> None:
    queue = SendQueue(SMALL, Flow())
    queue.add_envelopes([heartbeat(1), heartbeat(2)])
    queue.discard()
    assert (queue.messages_dropped, queue.bytes, bool(queue)) == (2, 0, False)


def test_requests_are_accepted_or_refused_but_never_dropped() -> None:
    queue = SendQueue(SMALL, Flow())
    assert queue.add_frame([bytes(5 * KIB)])
    assert not queue.add_frame([bytes(5 * KIB)])
    queue.add_envelopes([heartbeat(number) for number in range(1000)])
    assert queue.bytes <= SMALL.send_queue_bytes_max
    assert sum(map(len, queue.take(SMALL.turn_bytes))) > 5 * KIB
    assert queue.add_frame([bytes(5 * KIB)])
    queue.discard()
    assert not queue
    assert queue.bytes == 0


def test_only_the_newest_beat_is_sent() -> None:
    queue = SendQueue(SMALL, Flow())
    queue.add_heartbeat(ProcessHeartbeat(DISK, 1, 1))
    queue.add_heartbeat(ProcessHeartbeat(DISK, 1, 2))
    alone = SendQueue(SMALL, Flow())
    alone.add_heartbeat(ProcessHeartbeat(DISK, 1, 2))
    assert queue.take(SMALL.turn_bytes) == alone.take(SMALL.turn_bytes)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(["beats", "append", "frame", "take"]), st.integers(1, 6000)), max_size=40))
def test_the_queue_keeps_its_bound_and_counts_its_bytes(steps: list[tuple[str, int]]) -> None:
    queue = SendQueue(SMALL, Flow())
    for step, number in steps:
        was_empty = queue.bytes == 0
        if step == "beats":
            queue.add_envelopes([heartbeat(number) for number in range(number // 50)])
        elif step == "append":
            queue.add_envelopes([append(number, number)])
        elif step == "frame":
            queue.add_frame(encode_frame(FrameKind.CALL, bytes(number)))
        elif queue:
            queue.take(SMALL.turn_bytes)
        assert queue.bytes >= 0
        assert queue.bytes <= SMALL.send_queue_bytes_max or was_empty
        assert bool(queue) == (queue.bytes > 0)


@settings(max_examples=20)
@given(st.lists(st.binary(max_size=100) | st.integers(16_000, 20_000).map(bytes), max_size=20))
def test_joined_buffers_are_the_same_bytes(buffers: list[bytes]) -> None:
    result = join_buffers(buffers)
    assert b"".join(result) == b"".join(buffers)
    assert all(any(buffer is each for each in result) for buffer in buffers if len(buffer) > 16 * KIB)


def test_the_bulk_budget_bounds_requests() -> None:
    bucket = TokenBucket(bytes_per_s=1000, burst_bytes=500)
    assert bucket.delay_s(10.0) == 0
    bucket.take(300)
    assert bucket.delay_s(10.0) == 0
    bucket.take(1200)
    assert bucket.delay_s(10.0) == pytest.approx(1.0)
    assert bucket.delay_s(10.5) == pytest.approx(0.5)
    assert bucket.delay_s(11.0) == pytest.approx(0)
    assert bucket.delay_s(99.0) == 0
    bucket.take(1500)
    assert bucket.delay_s(99.0) == pytest.approx(1.0), "a pause saves up a burst and no more"


def test_protocol_errors_are_counted_and_rarely_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    protocol_errors = ProtocolErrors(RpcConfig(protocol_error_interval_ms=1000, sources_max=3))
    assert protocol_errors.add("a", "nonsense", 0.0)
    assert not any(protocol_errors.add("a", "nonsense", at / 1000) for at in range(999))
    assert protocol_errors.add("a", "nonsense", 1.0)
    assert protocol_errors.count == 1001
    assert [record.getMessage() for record in caplog.records] == [
        "connection from a closed: nonsense",
        "connection from a closed: nonsense (999 more since the last line)",
    ]


def test_protocol_errors_from_many_sources_are_rarely_logged() -> None:
    protocol_errors = ProtocolErrors(RpcConfig(protocol_error_interval_ms=1000, sources_max=3))
    written = [protocol_errors.add(f"source {number}", "nonsense", number / 1000) for number in range(1000)]
    assert sum(written) <= 3 + 3
    assert protocol_errors.count == 1000


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("128.0.0.1", False),
    ],
)
def test_loopback_addresses_are_recognized(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


async def test_names_are_checked_by_all_their_addresses() -> None:
    loop = asyncio.get_running_loop()
    for name in ("localhost", "127.0.0.1", "::1"):
        addresses = await resolve(loop, name)
        assert addresses
        check_reachable(name, addresses, is_secured=False, is_insecure_allowed=False)
    for name in ("", "no.such.host.invalid", "a" * 300):
        with pytest.raises(InvalidArgument):
            await resolve(loop, name)


def test_listening_on_a_reachable_address_needs_tls_or_insecure() -> None:
    with pytest.raises(InvalidArgument, match=r"^name \(10\.0\.0\.1\) can be reached .* configure TLS .* --insecure"):
        check_reachable("name", ["127.0.0.1", "10.0.0.1"], is_secured=False, is_insecure_allowed=False)
    check_reachable("name", ["10.0.0.1"], is_secured=True, is_insecure_allowed=False)
    check_reachable("name", ["10.0.0.1"], is_secured=False, is_insecure_allowed=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"turn_bytes": 0},
        {"turn_bytes": 40 * MIB, "body_bytes_max": 64 * MIB},
        {"body_bytes_max": 8 * MIB},
        {"header_bytes_max": 65 * MIB},
        {"reconnect_min_ms": 2000},
    ],
)
def test_inconsistent_settings_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=f"{next(iter(changes))}="):
        RpcConfig(**changes)
