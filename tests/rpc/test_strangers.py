"""Strangers: garbage on the port, wrong identities, and peers that send forged messages."""

import asyncio
import logging
import struct
import uuid
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from raftlog.raft import ReplicaId
from raftlog.runtime.rpc.calls import Call
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.frames.codec import encode_heartbeat, encode_turn
from raftlog.runtime.rpc.frames.frame import FrameKind, encode_frame
from raftlog.runtime.rpc.handshake import (
    Channel,
    HandshakeRefusal,
    Hello,
    Reason,
    encode_hello,
    encode_refusal,
    pack_hello,
)
from raftlog.runtime.transport import Envelope
from raftlog.types import NodeId
from tests.rpc.loops import on_both_loops
from tests.rpc.messages import append, heartbeat
from tests.rpc.processes import (
    FakePeer,
    Process,
    RawPeer,
    envelopes_of,
    heartbeat_of,
    hello_of,
    identity_of,
    run_processes,
    wait_until_connected,
)
from tests.waiting import until

QUICK = RpcConfig(
    reconnect_min_ms=5, reconnect_max_ms=20, close_timeout_ms=200, handshake_timeout_ms=150, strangers_max=8
)


async def check_accepts_peers(one: Process) -> None:
    """Check that a correct peer can connect and send."""
    two = Process(identity_of(2))
    async with run_processes(two):
        two.transport.set_addresses({one.node: one.address})
        await two.wait_for_channels(1)
        two.transport.send(one.node, [_from_two(heartbeat(1))])
        assert len(envelopes_of(await one.turns.next())) == 1


def _from_two(envelope: Envelope) -> Envelope:
    sender = ReplicaId(NodeId(2), uuid.UUID(int=2))
    return Envelope(envelope.group, envelope.message._replace(sender=sender))


def _head(kind: int, body_size: int, payload_size: int) -> bytes:
    return struct.pack(">4sBBHIII", b"RLOG", 1, kind, 0, body_size, payload_size, 0)


GARBAGE = {
    "random": Random(5).randbytes(10_000),
    "http": b"GET /v1/status/ready HTTP/1.1\r\nHost: x\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "zeros": bytes(100_000),
    "huge body": _head(FrameKind.HELLO, 2**32 - 1, 0),
    "huge payload": _head(FrameKind.HELLO, 10, 2**32 - 1),
    "large hello": b"".join(encode_frame(FrameKind.HELLO, bytes(5000))),
    "no hello": b"".join(encode_heartbeat(heartbeat_of(2, 1, 1))),
    "a refusal": b"".join(encode_refusal(HandshakeRefusal(Reason.UNKNOWN, "no"))),
    "hello of nonsense": b"".join(encode_frame(FrameKind.HELLO, b"nonsense")),
    "wrong checksum": b"".join(encode_hello(pack_hello(hello_of(2))))[:-1] + b"\xff",
}


@on_both_loops
async def test_garbage_is_closed_and_counted_without_harm() -> None:
    one = Process(identity_of(1), QUICK)
    async with run_processes(one):
        for number, garbage in enumerate(GARBAGE.values()):
            raw = await RawPeer.connect(one.address)
            raw.write(garbage)
            assert await raw.wait_until_closed() == b"", "nothing is said to a stranger"
            await raw.close()
            assert one.transport.protocol_errors == number + 1
        assert one.transport._listener.connections() == []
        await check_accepts_peers(one)


@on_both_loops
async def test_a_client_that_sends_too_slowly_is_disconnected() -> None:
    """No data, half a frame, and single bytes with pauses: the time limit covers the whole handshake."""
    one = Process(identity_of(1), QUICK)
    hello = b"".join(encode_hello(pack_hello(hello_of(2))))
    async with run_processes(one):
        silent, half = await RawPeer.connect(one.address), await RawPeer.connect(one.address)
        half.write(hello[: len(hello) // 2])
        assert await silent.wait_until_closed() == b""
        assert await half.wait_until_closed() == b""
        await silent.close()
        await half.close()
        assert one.transport.protocol_errors == 2
        await check_accepts_peers(one)


@on_both_loops
async def test_connections_of_strangers_are_bounded() -> None:
    one = Process(identity_of(1), QUICK)
    async with run_processes(one):
        strangers = [await RawPeer.connect(one.address) for _ in range(QUICK.strangers_max + 3)]
        for stranger in strangers:
            assert await stranger.wait_until_closed() == b""
            await stranger.close()
        assert one.transport.protocol_errors == len(strangers)
        await check_accepts_peers(one)


def test_a_flood_of_garbage_writes_few_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def flood() -> None:
        one = Process(identity_of(1), QUICK)
        async with run_processes(one):
            for _ in range(50):
                raw = await RawPeer.connect(one.address)
                raw.write(b"password=hunter2")
                await raw.wait_until_closed()
                await raw.close()
            assert one.transport.protocol_errors == 50

    asyncio.run(flood())
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["connection from 127.0.0.1 closed: what came is not this protocol"]


# after the handshake


def _other_sender() -> list[Any]:
    return encode_turn([heartbeat(1)])


LIES: dict[str, tuple[Channel, Callable[[], list[Any]]]] = {
    "in another's name": (Channel.RAFT, _other_sender),
    "raft on the bulk channel": (Channel.BULK, lambda: encode_turn([_from_two(append(1, 5))])),
    "a heartbeat on the bulk channel": (Channel.BULK, lambda: encode_heartbeat(heartbeat_of(2, 1, 1))),
    "a heartbeat of another disk": (Channel.RAFT, lambda: encode_heartbeat(heartbeat_of(3, 1, 1))),
    "a second introduction": (Channel.RAFT, lambda: encode_hello(pack_hello(hello_of(2)))),
    "an answer to nothing": (Channel.RAFT, lambda: encode_frame(FrameKind.ANSWER, b"\x93\x01\xc0\xc4\x00")),
    "nonsense in a turn": (Channel.RAFT, lambda: encode_frame(FrameKind.TURN, b"nonsense", [bytes(100_000)])),
    "nonsense in a request": (Channel.BULK, lambda: encode_frame(FrameKind.CALL, b"\x95\x01\x01\x01\x01\x01")),
    "a bulk question that is none": (
        Channel.BULK,
        lambda: encode_frame(FrameKind.CALL, b"\x95\x01\x01\xa8bulk.log\x01\xc4\x00"),
    ),
    "a refusal": (Channel.RAFT, lambda: encode_refusal(HandshakeRefusal(Reason.UNKNOWN, "go away"))),
    "too large": (Channel.RAFT, lambda: [_head(FrameKind.TURN, 0, 65 << 20)]),
    "garbage": (Channel.RAFT, lambda: [b"x" * 100]),
}


@on_both_loops
async def test_peers_with_forged_messages_are_disconnected() -> None:
    one = Process(identity_of(1), QUICK)
    async with run_processes(one):
        for number, (channel, frame) in enumerate(LIES.values()):
            raw = await RawPeer.connect(one.address)
            assert isinstance(await raw.connect_handshake(hello_of(2, channel)), Hello)
            raw.write(*frame())
            assert await raw.wait_until_closed() == b""
            await raw.close()
            assert one.transport.protocol_errors == number + 1
        assert len(one.turns) == len(one.beats) == 0


@on_both_loops
async def test_invalid_frames_of_a_server_end_the_connection() -> None:
    one, two = Process(identity_of(1), QUICK), FakePeer(2)
    async with two.listening(), run_processes(one):
        one.transport.set_addresses({two.node: two.address})
        for garbage in (b"nonsense!", b"".join(encode_turn([heartbeat(1)]))):
            await wait_until_connected(one, 2)
            (raw,) = await two.raft.next()
            waiting = asyncio.ensure_future(one.transport.call(two.node, Call("x")))
            await raw.read_frame()
            raw.write(garbage)
            with pytest.raises(ConnectionError, match="broke"):
                await waiting
            while (await one.connections.next())[1:] != (Channel.RAFT, False):
                continue


# the handshake


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cluster_id": "green"}, "cluster blue and node 2 to cluster green"),
        ({"feature_level_min": 5, "feature_level_max": 6}, "upgrade the older one"),
        ({"node_id": NodeId(1)}, "node id 1 is used by"),
    ],
)
def test_refusals_reach_both_sides(changes: dict[str, Any], words: str) -> None:
    async def refuse() -> None:
        one, two = Process(identity_of(1), QUICK), Process(identity_of(2, **changes), QUICK)
        async with run_processes(one, two):
            two.transport.set_addresses({NodeId(1): one.address})
            raw = await RawPeer.connect(one.address)
            refusal = await raw.connect_handshake(hello_of(2, **changes))
            assert isinstance(refusal, HandshakeRefusal)
            assert words in refusal.message
            assert await raw.wait_until_closed() == b""
            await raw.close()
            await until(lambda: one.transport.protocol_errors > 1 and bool(two.transport.peers()[0].raft.last_error))
            error = two.transport.peers()[0].raft.last_error
            assert error is not None
            assert words in error
            assert "refuses the connection" in error

    asyncio.run(refuse())


@on_both_loops
async def test_the_connecting_side_checks_as_well() -> None:
    """Another node than expected is at the address: it receives an error and no messages."""
    one, three = Process(identity_of(1), QUICK), Process(identity_of(3), QUICK)
    async with run_processes(one, three):
        one.transport.set_addresses({NodeId(2): three.address})
        await until(lambda: three.transport.protocol_errors > 0)
        status = one.transport.peers()[0].raft
        assert status.last_error is not None
        assert "node 2 was expected at this address, and node 3 is there" in status.last_error
        assert not status.is_connected


@on_both_loops
async def test_an_old_copy_of_a_disk_is_refused() -> None:
    one = Process(identity_of(1), QUICK)
    async with run_processes(one):
        newer = await RawPeer.connect(one.address)
        await newer.connect_handshake(hello_of(2, boot_epoch=5, journal_sequence=70))
        newer.write(*encode_heartbeat(heartbeat_of(2, 5, 90)))
        await one.beats.next()
        await newer.close()
        for epoch, sequence, reason in (
            (4, 90, Reason.STALE_BOOT_EPOCH),
            (6, 89, Reason.STALE_JOURNAL),
        ):
            older = await RawPeer.connect(one.address)
            refusal = await older.connect_handshake(hello_of(2, boot_epoch=epoch, journal_sequence=sequence))
            assert isinstance(refusal, HandshakeRefusal)
            assert refusal.reason is reason
            await older.close()
        copied = await RawPeer.connect(one.address)
        refusal = await copied.connect_handshake(
            hello_of(2, boot_epoch=5, journal_sequence=90)._replace(boot_id=b"2nd boot")
        )
        assert isinstance(refusal, HandshakeRefusal)
        assert refusal.reason is Reason.COPIED_DISK
        await copied.close()
        again = await RawPeer.connect(one.address)
        assert isinstance(await again.connect_handshake(hello_of(2, boot_epoch=6, journal_sequence=90)), Hello)
        await again.close()


@on_both_loops
async def test_a_node_id_used_twice_is_refused() -> None:
    one = Process(identity_of(1), QUICK)
    async with run_processes(one):
        first, second = await RawPeer.connect(one.address), await RawPeer.connect(one.address)
        assert isinstance(await first.connect_handshake(hello_of(2)), Hello)
        refusal = await second.connect_handshake(hello_of(2, disk_uuid=uuid.UUID(int=99)))
        assert isinstance(refusal, HandshakeRefusal)
        assert refusal.reason is Reason.NODE_ID_TWICE
        await first.close()
        await second.close()
