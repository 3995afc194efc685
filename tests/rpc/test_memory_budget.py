"""Memory for incoming frames: allocated for received bytes, not for announced ones, and bounded in total."""

import asyncio
import gc
import struct
import tracemalloc
import weakref
from dataclasses import replace

from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.runtime.rpc.accepted_connection import AcceptedConnection
from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.frames.frame import (
    HEAD_SIZE,
    LARGE_BYTES_FIRST,
    FrameBound,
    FrameKind,
    FrameReader,
    encode_frame,
)
from raftlog.runtime.rpc.handshake import Hello
from raftlog.topic_config import MIB
from tests.rpc.loops import on_both_loops
from tests.rpc.processes import QUICK, Process, RawPeer, hello_of, identity_of, run_cluster, run_processes
from tests.waiting import until


def _fail_on_call() -> None:
    raise AssertionError("nothing was waited for")


def test_requests_within_the_limit_are_granted_and_others_wait_in_order() -> None:
    budget = MemoryBudget(10)
    granted: list[str] = []
    assert budget.take("a", 6, _fail_on_call)
    assert budget.take("b", 4, _fail_on_call)
    assert not budget.take("c", 3, lambda: granted.append("c"))
    assert not budget.take("d", 1, lambda: granted.append("d"))
    budget.release("b")
    assert granted == ["c", "d"]
    assert budget.used == 10
    for owner in "acd":
        budget.release(owner)
    assert budget.used == 0


def test_the_oldest_owner_may_exceed_the_limit() -> None:
    """Otherwise connections that each hold part of a frame would wait for each other forever."""
    budget = MemoryBudget(10)
    granted: list[str] = []
    assert budget.take("a", 5, _fail_on_call)
    assert budget.take("b", 5, _fail_on_call)
    assert not budget.take("b", 10, lambda: granted.append("b"))
    assert budget.take("a", 30, _fail_on_call)
    budget.release("a")
    assert granted == ["b"], "now it is the oldest"
    assert budget.used == 15


def test_a_cancelled_request_leaves_the_queue() -> None:
    budget = MemoryBudget(10)
    assert budget.take("a", 10, _fail_on_call)
    assert not budget.take("b", 5, _fail_on_call)
    budget.release("b")
    budget.release("a")
    assert budget.used == 0


def test_memory_of_a_frame_grows_with_its_received_bytes() -> None:
    size = 40 * MIB
    reader = FrameReader({FrameKind.TURN: FrameBound(MIB, 64 * MIB)}, 4096)
    data = b"".join(encode_frame(FrameKind.TURN, b"body", [bytes(size)]))
    at, allocated = 0, 0
    while (frame := reader.next_frame()) is None:
        if reader.missing_room:
            allocated += reader.missing_room
            reader.grow()
            assert allocated <= max(LARGE_BYTES_FIRST, 2 * at), f"{allocated} bytes for {at} that came"
        room = reader.get_buffer()
        count = min(len(room), 100_000, len(data) - at)
        room[:count] = data[at : at + count]
        reader.advance(count)
        at += count
    assert allocated == len(data) == HEAD_SIZE + 4 + size
    assert bytes(frame.body) == b"body"
    assert frame.payload == bytes(size)
    assert not reader.is_inside_frame


@on_both_loops
async def test_announced_frames_take_no_memory() -> None:
    """Thirty peers announce 64 MiB each, and send a small part."""
    one = Process(identity_of(1))
    head = struct.pack(">4sBBHIII", b"RLOG", 2, FrameKind.CALL, 0, 100, 63 * MIB, 0)
    async with run_processes(one):
        raws = [await RawPeer.connect(one.address) for _ in range(30)]
        for node, raw in enumerate(raws, start=2):
            assert isinstance(await raw.connect_handshake(hello_of(node)), Hello)
        budget = one.transport._endpoint.receive_budget
        tracemalloc.start()
        for raw in raws:
            raw.write(head, bytes(1000))
        await until(lambda: budget.used >= 30 * LARGE_BYTES_FIRST)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert budget.used == 30 * LARGE_BYTES_FIRST
        assert peak < 40 * MIB
        for raw in raws:
            await raw.close()
        await until(lambda: not budget.used)


@on_both_loops
async def test_large_frames_beyond_the_limit_are_received_one_by_one() -> None:
    small = replace(QUICK, receive_bytes_max=3 * MIB)
    one, *others = (Process(identity_of(node), small) for node in range(1, 6))
    payload = bytes(5 * MIB)
    async with run_cluster(one, *others):
        answers = await asyncio.gather(*(other.transport.call(one.node, Call("x", 1, (payload,))) for other in others))
        assert [answer.value for answer in answers] == [[other.node, 1] for other in others]
        assert all(answer == Answer(answer.value, (payload,)) for answer in answers)
        assert one.transport._endpoint.receive_budget.used == 0


@on_both_loops
async def test_a_closed_connection_leaves_no_reference_cycles() -> None:
    """Frozen cycles (`raftlog.runtime.heap`) would stay until the process exits."""
    one = Process(identity_of(1))
    async with run_processes(one):
        gc.disable()
        try:
            raw = await RawPeer.connect(one.address)
            assert isinstance(await raw.connect_handshake(hello_of(2)), Hello)
            (accepted,) = one.transport._listener.connections()
            watched = [weakref.ref(accepted), weakref.ref(accepted.connection)]
            assert isinstance(accepted, AcceptedConnection)
            del accepted
            await raw.close()
            await until(lambda: all(each() is None for each in watched))
        finally:
            gc.enable()
