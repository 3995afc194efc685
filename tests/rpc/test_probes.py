"""Probes of an address without a known identity, and the fields of a refusal beside its text."""

import asyncio
import gc
import socket
import uuid
import warnings

import pytest

from raftlog.errors import InvalidArgument
from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.errors import HandshakeRefused, NoAnswer, NotConnected
from raftlog.runtime.rpc.frames.frame import HEAD_SIZE
from raftlog.runtime.rpc.handshake import (
    Channel,
    HandshakeRefusal,
    PeerIdentity,
    Reason,
    decode_refusal,
    encode_refusal,
)
from raftlog.types import NodeId
from tests.rpc.loops import on_both_loops
from tests.rpc.processes import Inbox, Process, RawPeer, hello_of, identity_of, run_cluster, run_processes


@on_both_loops
async def test_a_probe_returns_the_identity_and_the_answer() -> None:
    one, two = Process(identity_of(1)), Process(identity_of(2, cluster_id=None))
    async with run_processes(one, two):
        identity, answer = await two.transport.probe(one.address, Call("who", {"a": 1}, (b"xy",)))
        assert identity == one.identity
        assert answer.value == [2, {"a": 1}]
        assert [bytes(each) for each in answer.payload] == [b"xy"]


@on_both_loops
async def test_a_probe_disturbs_no_other_connection() -> None:
    one, two = Process(identity_of(1)), Process(identity_of(2))
    async with run_cluster(one, two):
        before = len(one.connections)
        await asyncio.gather(*(two.transport.probe(one.address, Call("who")) for _ in range(5)))
        assert len(one.connections) == before
        status = two.transport.peers()[0]
        assert (status.raft.connections_made, status.bulk.connections_made) == (1, 1)
        assert one.transport.protocol_errors == 0


@on_both_loops
async def test_a_process_refuses_a_probe_of_itself() -> None:
    one = Process(identity_of(1))
    async with run_processes(one):
        with pytest.raises(HandshakeRefused) as refused:
            await one.transport.probe(one.address, Call("who"))
        assert refused.value.reason == Reason.SELF
        assert one.transport.protocol_errors == 0, "that is no stranger"


@on_both_loops
async def test_another_cluster_refuses_a_probe_at_once() -> None:
    one, two = Process(identity_of(1)), Process(identity_of(2, cluster_id="green"))
    refusals = Inbox()
    async with run_processes(one, two):
        two.transport.on_refused = refusals.put
        with pytest.raises(HandshakeRefused, match="correct the seeds") as refused:
            await two.transport.probe(one.address, Call("who"))
        assert (refused.value.reason, refused.value.is_remote) == (Reason.CLUSTER_ID, True)
        [refusal] = await refusals.next()
        assert (refusal.reason, refusal.cluster_id, refusal.is_member) == (Reason.CLUSTER_ID, "blue", False)


@on_both_loops
async def test_a_refusal_reports_whether_the_disk_is_a_members() -> None:
    one = Process(identity_of(1))
    async with run_processes(one):
        one.transport.memory.assign_disk(NodeId(2), uuid.UUID(int=2))
        for epoch, reason in ((5, None), (4, Reason.STALE_BOOT_EPOCH)):
            raw = await RawPeer.connect(one.address)
            said = await raw.connect_handshake(hello_of(2, boot_epoch=epoch))
            if reason is not None:
                assert isinstance(said, HandshakeRefusal)
                assert (said.reason, said.cluster_id, said.is_member) == (reason, "blue", True)
            await raw.close()


@on_both_loops
async def test_failed_probes_have_their_errors() -> None:
    async def refuse(node: NodeId, request: object) -> Answer:
        raise InvalidArgument("no")

    async def never(node: NodeId, request: object) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    one, two, three = (
        Process(identity_of(1), serve=refuse),
        Process(identity_of(2), serve=never),
        Process(identity_of(3)),
    )
    free = socket.create_server(("127.0.0.1", 0))
    nowhere = free.getsockname()
    free.close()
    async with run_processes(one, two, three):
        with pytest.raises(InvalidArgument, match="no"):
            await three.transport.probe(one.address, Call("who"))
        with pytest.raises(NoAnswer):
            await three.transport.probe(two.address, Call("who", timeout_ms=500))
        with pytest.raises(NotConnected, match="cannot be reached"):
            await three.transport.probe(nowhere, Call("who"))
        pending = asyncio.ensure_future(three.transport.probe(two.address, Call("who", timeout_ms=60_000)))
        await asyncio.sleep(0)
        await three.transport.close()
        with pytest.raises((NotConnected, OSError)):
            await pending


@on_both_loops
async def test_an_outsider_may_only_probe_and_is_not_remembered() -> None:
    """An outsider is a process whose node id has another disk in the cluster."""
    one, outsider = Process(identity_of(1)), Process(identity_of(2))
    asked = Inbox()

    async def serve_probe(peer: PeerIdentity, request: object) -> Answer:
        asked.put(peer.node_id)
        return Answer("probe")

    async with run_processes(one, outsider):
        one.transport.memory.assign_disk(NodeId(2), uuid.UUID(int=99))
        one.transport.serve_probe = serve_probe
        _, answer = await outsider.transport.probe(one.address, Call("data.produce"))
        assert answer.value == "probe"
        assert await asked.next() == (2,)
        assert one.transport.memory.records() == []


@on_both_loops
async def test_a_process_that_does_not_listen_can_send_requests() -> None:
    one, two = Process(identity_of(1)), Process(identity_of(2))
    async with run_processes(one):
        await two.transport.start("127.0.0.1", None)
        assert two.transport.address is None
        await two.transport.probe(one.address, Call("who"))
        await two.transport.close()


@on_both_loops
async def test_a_socket_accepted_during_the_close_of_the_listener_is_closed() -> None:
    """Its task may be cancelled before its first step, or before it has the socket."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for turns in range(6):
            one = Process(identity_of(1))
            async with run_processes(one):
                client = socket.create_connection(one.address)
                for _ in range(turns):
                    await asyncio.sleep(0)
                await one.transport.close()
                client.settimeout(5)
                client.close()
        gc.collect()
    assert not [str(warning.message) for warning in caught if warning.category is ResourceWarning]


def test_refusals_with_and_without_a_cluster_round_trip() -> None:
    for refusal in (
        HandshakeRefusal(Reason.NODE_ID_TWICE, "twice", None, False),
        HandshakeRefusal(Reason.WRONG_DISK, "wrong", "blue", True),
    ):
        frame = b"".join(encode_refusal(refusal))
        assert decode_refusal(frame[HEAD_SIZE:]) == refusal
    assert Channel.PROBE == 3
