"""Transports of several processes over real sockets: deliveries, bounds, and failures of a peer."""

import asyncio
import uuid

import pytest

from raftlog.errors import InvalidArgument, NotLeader, OutcomeUnknown, Overloaded, Unavailable
from raftlog.raft import EntryId, ReplicaId
from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.errors import ConnectionLost, NoAnswer, NotConnected
from raftlog.runtime.rpc.frames.codec import TurnDecoder, encode_heartbeat
from raftlog.runtime.rpc.frames.frame import FrameKind
from raftlog.runtime.rpc.handshake import Channel
from raftlog.runtime.rpc.listener import check_stalls
from raftlog.runtime.rpc.tcp_transport import TcpTransport
from raftlog.runtime.transfer.bulk import EntriesRequest, EntriesResult, LogRequest, LogResult, StoredEntry
from raftlog.topic_config import KIB, MIB
from raftlog.types import Index, NodeId, Offset, Term
from tests.rpc.loops import on_both_loops
from tests.rpc.messages import ME, append, heartbeat
from tests.rpc.processes import (
    CREDENTIALS,
    QUICK,
    FakePeer,
    Inbox,
    Process,
    RawPeer,
    envelopes_of,
    heartbeat_of,
    hello_of,
    identity_of,
    run_cluster,
    run_processes,
    wait_until_connected,
)

GROUP = uuid.UUID(int=5).bytes


@on_both_loops
async def test_messages_and_beats_arrive_in_order() -> None:
    one, two = Process(identity_of(1)), Process(identity_of(2))
    turns = [[heartbeat(1), append(2, 10, 100_000), heartbeat(3)], [append(4, 2 * MIB)], [append(5, 5)]]
    async with run_cluster(one, two):
        arrived = []
        for turn in turns:
            one.transport.send(two.node, turn)
        one.transport.send_heartbeat(two.node, heartbeat_of(1, 1, 9))
        while len(arrived) < sum(map(len, turns)):
            arrived += envelopes_of(await two.turns.next())
        assert arrived == [envelope for turn in turns for envelope in turn]
        assert await two.beats.next() == (1, heartbeat_of(1, 1, 9))
        assert two.transport.memory.records()[0].journal_sequence == 9


@on_both_loops
async def test_requests_are_answered_or_fail() -> None:
    one, two = Process(identity_of(1)), Process(identity_of(2))
    payload = (b"small", bytes(3 * MIB), b"", b"end")
    async with run_cluster(one, two):
        answers = await asyncio.gather(
            *(one.transport.call(two.node, Call("echo", number)) for number in range(100)),
            two.transport.call(one.node, Call("echo", {"a": [b"x", None]}, payload)),
        )
    assert answers[:-1] == [Answer([1, number]) for number in range(100)]
    assert answers[-1] == Answer([2, {"a": [b"x", None]}], payload)


@on_both_loops
async def test_bulk_requests_use_their_own_connection() -> None:
    asked = EntriesRequest(GROUP, Index(4), Index(9), MIB)
    found = EntriesResult((StoredEntry(Index(4), Term(1), bytes(MIB)), StoredEntry(Index(5), Term(1), b"x")))
    log = LogResult(EntryId(Index(3), Term(1)), Offset(10), StoredEntry(Index(4), Term(1), b"a roll"))

    async def serve(node: NodeId, request: object) -> object:
        assert node == 1
        if request == LogRequest(GROUP):
            return log
        if request == asked:
            return found
        raise Unavailable("nothing else")

    one, two = Process(identity_of(1)), Process(identity_of(2), serve=serve)
    async with run_cluster(one, two):
        assert await one.transport.request(two.node, LogRequest(GROUP)) == log
        assert await one.transport.request(two.node, asked) == found
        with pytest.raises(Unavailable, match="nothing else"):
            await one.transport.request(two.node, LogRequest(bytes(16)))
        with pytest.raises(InvalidArgument):
            await one.transport.request(two.node, "what?")


@on_both_loops
async def test_errors_of_handlers_are_raised_at_the_caller() -> None:
    leader = ReplicaId(NodeId(3), uuid.UUID(int=3))

    async def serve(node: NodeId, request: object) -> object:
        assert isinstance(request, Call)
        if request.name == "disk":
            raise OSError("no disk")
        if request.name == "large":
            return Answer(bytes(2 * MIB))
        raise NotLeader("not here", leader)

    one, two = Process(identity_of(1)), Process(identity_of(2), serve=serve)
    async with run_cluster(one, two):
        with pytest.raises(NotLeader) as caught:
            await one.transport.call(two.node, Call("produce"))
        assert caught.value.leader == leader
        with pytest.raises(OutcomeUnknown, match="no disk"):
            await one.transport.call(two.node, Call("disk"))
        with pytest.raises(OutcomeUnknown, match="cannot be sent"):
            await one.transport.call(two.node, Call("large"))
        with pytest.raises(InvalidArgument):
            await one.transport.call(two.node, Call("large", bytes(2 * MIB)))


@on_both_loops
async def test_unexpected_errors_are_unknown_outcomes() -> None:
    failures = []

    async def serve(node: NodeId, request: object) -> object:
        raise AssertionError("broken")

    one, two = Process(identity_of(1)), Process(identity_of(2), serve=serve)
    async with run_cluster(one, two):
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
        with pytest.raises(OutcomeUnknown, match="unexpected error"):
            await one.transport.call(two.node, Call("x"))
    assert [str(failure) for failure in failures] == ["broken"]


@on_both_loops
async def test_a_deadline_passes_and_the_late_answer_is_ignored() -> None:
    go_on = asyncio.Event()

    async def serve(node: NodeId, request: object) -> object:
        assert isinstance(request, Call)
        assert request.timeout_ms in (20, 10_000)
        if request.name == "slow":
            await go_on.wait()
        return Answer(request.name)

    one, two = Process(identity_of(1)), Process(identity_of(2), serve=serve)
    async with run_cluster(one, two):
        with pytest.raises(NoAnswer, match="did not answer slow in 20 ms") as caught:
            await one.transport.call(two.node, Call("slow", timeout_ms=20))
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.outcome == "unknown"
        go_on.set()
        assert await one.transport.call(two.node, Call("quick")) == Answer("quick")


@on_both_loops
async def test_pending_requests_fail_when_the_connection_breaks() -> None:
    arrived = asyncio.Event()

    async def serve(node: NodeId, request: object) -> object:
        arrived.set()
        return await asyncio.Event().wait()

    one, two = Process(identity_of(1)), Process(identity_of(2), serve=serve)
    async with run_cluster(one), run_processes(two):
        one.transport.set_addresses({two.node: two.address})
        await one.wait_for_channels(2)
        waiting = asyncio.ensure_future(one.transport.call(two.node, Call("x")))
        await arrived.wait()
        cut = next(each for each in two.transport._listener.connections() if each.hello.channel is Channel.RAFT)
        cut.connection.abort()
        with pytest.raises(ConnectionLost) as caught:
            await waiting
        assert isinstance(caught.value, ConnectionError)
        assert caught.value.outcome == "unknown"
        await wait_until_connected(one, 2)


@on_both_loops
async def test_a_restarted_process_is_connected_again() -> None:
    one, two = Process(identity_of(1)), Process(identity_of(2))
    async with run_processes(one):
        async with run_processes(two):
            port = two.address[1]
            one.transport.set_addresses({two.node: two.address})
            await one.wait_for_channels(2)
        for _ in range(2):
            assert (await one.connections.next())[2] is False
        with pytest.raises(NotConnected) as caught:
            await one.transport.call(two.node, Call("x"))
        assert caught.value.outcome == "failed"
        one.transport.send(two.node, [heartbeat(1)])
        one.transport.send_heartbeat(two.node, heartbeat_of(1, 1, 1))
        assert one.transport.peers()[0].raft.messages_dropped == 1
        again = Process(identity_of(2, boot_epoch=2))
        async with run_processes(again, port=port):
            await wait_until_connected(one, 2)
            assert await one.transport.call(two.node, Call("x", 5)) == Answer([1, 5])
            status = one.transport.peers()[0].raft
            assert (status.connections_made, status.last_error, status.host_label) == (2, None, "host-2")


@on_both_loops
async def test_a_peer_without_an_address_is_removed() -> None:
    one, two = Process(identity_of(1)), Process(identity_of(2))
    async with run_cluster(one, two):
        one.transport.set_addresses({})
        assert one.transport.peers() == []
        one.transport.send(two.node, [heartbeat(1)])
        one.transport.send_heartbeat(two.node, heartbeat_of(1, 1, 1))
        assert one.transport.messages_unaddressed == 1
        with pytest.raises(NotConnected, match="no address"):
            await one.transport.call(two.node, Call("x"))


@on_both_loops
async def test_an_address_can_change() -> None:
    one, old, new = Process(identity_of(1)), Process(identity_of(2)), Process(identity_of(2, boot_epoch=2))
    async with run_processes(one, old, new):
        one.transport.set_addresses({old.node: old.address})
        await one.wait_for_channels(2)
        one.transport.set_addresses({old.node: new.address})
        for _ in range(2):
            assert (await one.connections.next())[2] is False
        await one.wait_for_channels(2)
        one.transport.send(new.node, [heartbeat(1)])
        assert envelopes_of(await new.turns.next()) == [heartbeat(1)]
        assert len(old.turns) == 0


@on_both_loops
async def test_a_turn_is_one_frame() -> None:
    one, two = Process(identity_of(1)), FakePeer(2)
    async with two.listening(), run_processes(one):
        one.transport.set_addresses({two.node: two.address})
        await one.wait_for_channels(2)
        (raw,) = await two.raft.next()
        writes = one.transport.traffic().writes["raft"]
        one.transport.send_heartbeat(two.node, heartbeat_of(1, 1, 1))
        one.transport.send(two.node, [heartbeat(1), heartbeat(2), append(3, 10)])
        assert one.transport.traffic().writes["raft"] == writes + 1, "messages wait for no later turn of the loop"
        assert (await raw.read_frame()).kind is FrameKind.BEAT
        frame = await raw.read_frame()
        assert TurnDecoder().decode(frame.body, frame.payload, ME) == [heartbeat(1), heartbeat(2), append(3, 10)]


@on_both_loops
async def test_a_peer_that_does_not_read_costs_bounded_memory_and_blocks_no_other() -> None:
    config = RpcConfig(
        send_queue_bytes_max=256 * KIB, write_buffer_bytes=64 * KIB, turn_bytes=64 * KIB, close_timeout_ms=50
    )
    one, two, three = Process(identity_of(1), config), FakePeer(2, is_deaf=True), Process(identity_of(3))
    async with two.listening(), run_processes(one, three):
        one.transport.set_addresses({two.node: two.address, three.node: three.address})
        await wait_until_connected(one, 2)
        await wait_until_connected(one, 3)
        for number in range(400):
            one.transport.send(two.node, [append(number, 60 * KIB), heartbeat(number)])
            one.transport.send(three.node, [heartbeat(number)])
            await three.turns.next()
        status = one.transport.peers()[0].raft
        assert status.messages_dropped > 100
        assert status.queued_bytes <= config.send_queue_bytes_max + config.write_buffer_bytes + 2 * config.turn_bytes
        with pytest.raises(Overloaded):
            await one.transport.call(two.node, Call("x", None, (bytes(100 * KIB),)))


@on_both_loops
async def test_requests_beyond_the_bound_are_refused_by_the_server() -> None:
    go_on, arrived = asyncio.Event(), Inbox()

    async def serve(node: NodeId, request: object) -> object:
        arrived.put(request)
        await go_on.wait()
        return Answer()

    one = Process(identity_of(1))
    two = Process(identity_of(2), RpcConfig(calls_served_max=3, served_bytes_max=100), serve=serve)
    async with run_cluster(one, two):
        waiting = [asyncio.ensure_future(one.transport.call(two.node, Call("x", None, (bytes(50),)))) for _ in range(2)]
        for _ in waiting:
            await arrived.next()
        with pytest.raises(Overloaded, match="2 requests of node 1"):
            await one.transport.call(two.node, Call("too many bytes", None, (b"x",)))
        waiting.append(asyncio.ensure_future(one.transport.call(two.node, Call("x"))))
        await arrived.next()
        with pytest.raises(Overloaded, match="3 requests of node 1"):
            await one.transport.call(two.node, Call("too many"))
        go_on.set()
        assert await asyncio.gather(*waiting) == [Answer()] * 3


@on_both_loops
async def test_our_own_pending_requests_are_bounded() -> None:
    arrived = Inbox()

    async def serve(node: NodeId, request: object) -> object:
        arrived.put(request)
        return await asyncio.Event().wait()

    one, two = Process(identity_of(1), RpcConfig(calls_outstanding_max=1)), Process(identity_of(2), serve=serve)
    async with run_cluster(one, two):
        first = asyncio.ensure_future(one.transport.call(two.node, Call("x", timeout_ms=5_000)))
        await arrived.next()
        with pytest.raises(Overloaded, match="1 requests wait for node 2"):
            await one.transport.call(two.node, Call("x"))
        first.cancel()


@on_both_loops
async def test_only_bulk_transfer_is_throttled() -> None:
    found = EntriesResult((StoredEntry(Index(4), Term(1), bytes(200 * KIB)),))

    async def serve(node: NodeId, request: object) -> object:
        return Answer() if isinstance(request, Call) else found

    one = Process(identity_of(1))
    two = Process(identity_of(2), RpcConfig(bulk_bytes_per_s=2 * MIB, bulk_burst_bytes=KIB), serve=serve)
    asked = EntriesRequest(GROUP, Index(4), Index(9), MIB)
    async with run_cluster(one, two):
        loop = asyncio.get_running_loop()
        began = loop.time()
        bulk = asyncio.gather(*(one.transport.request(two.node, asked) for _ in range(4)))
        await one.transport.call(two.node, Call("x", None, (bytes(MIB),)))
        assert not bulk.done()
        await bulk
        assert loop.time() - began >= 0.25, "three of four frames had to be paid for first"


@on_both_loops
async def test_the_throttle_of_bulk_can_be_changed() -> None:
    found = EntriesResult((StoredEntry(Index(4), Term(1), bytes(200 * KIB)),))

    async def serve(node: NodeId, request: object) -> object:
        return found

    one = Process(identity_of(1))
    two = Process(identity_of(2), RpcConfig(bulk_bytes_per_s=64 * KIB, bulk_burst_bytes=KIB), serve=serve)
    asked = EntriesRequest(GROUP, Index(4), Index(9), MIB)
    async with run_cluster(one, two):
        two.transport.limit_bulk(1 << 40)
        async with asyncio.timeout(5):  # by the settings it would be a minute
            answers = await asyncio.gather(*(one.transport.request(two.node, asked) for _ in range(20)))
        assert [answer == found for answer in answers] == [True] * 20


@on_both_loops
async def test_a_new_connection_of_a_peer_replaces_the_old_one() -> None:
    one = Process(identity_of(1))
    async with run_processes(one):
        old, new = await RawPeer.connect(one.address), await RawPeer.connect(one.address)
        await old.connect_handshake(hello_of(2))
        await new.connect_handshake(hello_of(2))
        assert await old.wait_until_closed() == b""
        assert len(one.transport._listener.connections()) == 1
        await old.close()
        await new.close()


@on_both_loops
async def test_close_sends_queued_messages() -> None:
    one, two = Process(identity_of(1)), Process(identity_of(2))
    async with run_cluster(one, two):
        one.transport.send(two.node, [append(1, 2 * MIB)])
        await one.transport.close()
        assert envelopes_of(await two.turns.next()) == [append(1, 2 * MIB)]


@on_both_loops
async def test_unusable_listen_addresses_are_refused() -> None:
    one = Process(identity_of(1))
    async with run_processes(one):
        with pytest.raises(OSError, match="in use"):
            await Process(identity_of(2)).transport.start(*one.address)
        for host in ("0.0.0.0", "::"):
            with pytest.raises(InvalidArgument, match="--insecure"):
                await Process(identity_of(2)).transport.start(host, 0)
    open_to_all = TcpTransport(
        lambda: identity_of(1), one.transport._endpoint.random, QUICK, credentials=CREDENTIALS, insecure=True
    )
    await open_to_all.start("0.0.0.0", 0)
    await open_to_all.close()


@on_both_loops
async def test_a_stalled_frame_ends_its_connection() -> None:
    loop = asyncio.get_running_loop()
    one = Process(identity_of(1), RpcConfig(stall_timeout_ms=1))
    async with run_processes(one):
        raw = await RawPeer.connect(one.address)
        await raw.connect_handshake(hello_of(2))
        raw.write(*encode_heartbeat(heartbeat_of(2, 1, 1)), b"RLOG")
        (accepted,) = one.transport._listener.connections()
        await one.beats.next()
        check_stalls([accepted.connection], loop.time() - 1)
        assert not accepted.connection.is_closing
        check_stalls([accepted.connection], loop.time() + 1)
        assert await raw.wait_until_closed() == b""
        await raw.close()
    assert one.transport.protocol_errors == 1
