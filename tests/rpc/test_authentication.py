"""Proofs of identity: no effects before a valid proof, and no other proof is accepted."""

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from raftlog.cluster_secret import ClusterSecret
from raftlog.errors import InvalidArgument
from raftlog.raft import ReplicaId
from raftlog.runtime.rpc.authentication import (
    Credentials,
    Proof,
    ProvingSide,
    authenticate,
    certified_nodes,
    credentials_of,
    decode_proof,
    encode_proof,
    transcript_of,
)
from raftlog.runtime.rpc.calls import Call
from raftlog.runtime.rpc.errors import BadFrame, HandshakeRefused
from raftlog.runtime.rpc.frames.codec import encode_heartbeat, encode_turn
from raftlog.runtime.rpc.frames.frame import HEAD_SIZE, FrameKind
from raftlog.runtime.rpc.frames.packing import pack_flat
from raftlog.runtime.rpc.handshake import (
    Channel,
    HandshakeRefusal,
    Hello,
    Reason,
    encode_hello,
    encode_refusal,
    pack_hello,
    pack_refusal,
)
from raftlog.types import NodeId
from tests.rpc.loops import on_both_loops
from tests.rpc.messages import heartbeat
from tests.rpc.processes import (
    CREDENTIALS,
    QUICK,
    Process,
    RawPeer,
    heartbeat_of,
    hello_of,
    identity_of,
    run_processes,
    wait_until_connected,
)
from tests.waiting import until

OLD, NEW = b"old" * 11, b"new" * 11
OTHERS = credentials_of(ClusterSecret((b"a secret of somebody else entirely",)))
THEIRS = hello_of(2)
TRANSCRIPT = transcript_of(pack_hello(THEIRS), pack_hello(hello_of(1)))


def refusal_reason(
    proof: Proof, credentials: Credentials = CREDENTIALS, certified: frozenset[int] = frozenset()
) -> str:
    """Return the accepting side's reason to refuse node 2; empty if it is accepted."""
    refusal = authenticate(credentials, proof, ProvingSide.CONNECTOR, TRANSCRIPT, THEIRS, certified)
    return "" if refusal is None else refusal.reason.name


# the judgement


def test_the_secret_authenticates_its_holder() -> None:
    assert refusal_reason(CREDENTIALS.prove(ProvingSide.CONNECTOR, TRANSCRIPT)) == ""
    assert refusal_reason(OTHERS.prove(ProvingSide.CONNECTOR, TRANSCRIPT)) == "UNAUTHENTICATED"
    assert refusal_reason(Proof(b"")) == "UNAUTHENTICATED"
    assert refusal_reason(Proof(bytes(32))) == "UNAUTHENTICATED"


def test_a_proof_is_valid_for_one_side_connection_and_refusal() -> None:
    another = transcript_of(pack_hello(THEIRS), pack_hello(hello_of(1)._replace(nonce=b"n" * 32)))
    refusal = pack_refusal(HandshakeRefusal(Reason.RETIRED_DISK, "gone"))
    assert refusal_reason(CREDENTIALS.prove(ProvingSide.ACCEPTOR, TRANSCRIPT)) == "UNAUTHENTICATED", "reflected"
    assert refusal_reason(CREDENTIALS.prove(ProvingSide.CONNECTOR, another)) == "UNAUTHENTICATED", "replayed"
    with_refusal = CREDENTIALS.prove(ProvingSide.CONNECTOR, TRANSCRIPT, refusal)
    assert refusal_reason(with_refusal) == ""
    assert refusal_reason(with_refusal._replace(refusal=b"")) == "UNAUTHENTICATED"


@pytest.mark.parametrize(
    "change",
    [
        {"node_id": NodeId(3)},
        {"disk_uuid": uuid.UUID(int=3)},
        {"boot_epoch": 9},
        {"journal_sequence": 9},
        {"cluster_id": "green"},
        {"rpc_address": "elsewhere:1"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_proof_covers_every_field_of_the_hello(change: dict[str, Any]) -> None:
    other = THEIRS._replace(identity=THEIRS.identity._replace(**change))
    transcript = transcript_of(pack_hello(other), pack_hello(hello_of(1)))
    assert not CREDENTIALS.accepts(
        CREDENTIALS.prove(ProvingSide.CONNECTOR, transcript), ProvingSide.CONNECTOR, TRANSCRIPT
    )


def test_the_transcript_includes_the_lengths_of_both_hellos() -> None:
    assert transcript_of(b"ab", b"c") != transcript_of(b"a", b"bc")


def test_the_proof_includes_the_border_between_hellos_and_refusal() -> None:
    proofs = [CREDENTIALS.prove(ProvingSide.ACCEPTOR, *parts).mac for parts in ((b"ab", b"c"), (b"a", b"bc"))]
    assert proofs[0] != proofs[1]


def test_without_a_secret_a_certificate_with_the_node_id_is_a_proof() -> None:
    assert refusal_reason(Proof(b""), Credentials(), frozenset({2})) == ""
    assert refusal_reason(Proof(b""), CREDENTIALS, frozenset({2})) == "", "the other side has no secret yet"
    assert refusal_reason(Proof(b""), Credentials()) == "UNAUTHENTICATED"
    proof = CREDENTIALS.prove(ProvingSide.CONNECTOR, TRANSCRIPT)
    assert refusal_reason(proof, CREDENTIALS, frozenset({3})) == "WRONG_CERTIFICATE", (
        "the secret does not make up for it"
    )
    wrong = OTHERS.prove(ProvingSide.CONNECTOR, TRANSCRIPT)
    assert refusal_reason(wrong, CREDENTIALS, frozenset({2})) == "UNAUTHENTICATED", (
        "nor a certificate for a wrong secret"
    )


def test_node_ids_are_read_from_names_of_a_certificate() -> None:
    names = (("DNS", "raftlog:node:1"), ("URI", "raftlog:node:7"), ("URI", "https://x"), ("URI", "raftlog:node:x8"))
    names += (("URI", "raftlog:node:\N{ARABIC-INDIC DIGIT NINE}"),)
    assert certified_nodes({"subjectAltName": names}) == {7}
    assert certified_nodes({}) == certified_nodes(None) == frozenset()


def test_keys_are_replaced_one_process_after_another() -> None:
    before, adding, moved, after = (
        credentials_of(ClusterSecret(keys)) for keys in ((OLD,), (OLD, NEW), (NEW, OLD), (NEW,))
    )
    for one, other in ((before, adding), (adding, moved), (moved, after)):
        for here, there in ((one, other), (other, one)):
            assert refusal_reason(there.prove(ProvingSide.CONNECTOR, TRANSCRIPT), here) == ""
    assert refusal_reason(before.prove(ProvingSide.CONNECTOR, TRANSCRIPT), after) == "UNAUTHENTICATED"


def test_the_repr_of_secrets_hides_the_keys() -> None:
    assert repr(CREDENTIALS) == "<1 keys for handshakes>"
    assert repr(ClusterSecret((OLD,))) == str(ClusterSecret((OLD,))) == "<1 keys>"


def test_proofs_round_trip() -> None:
    proof = Proof(b"m" * 32, b"why not")
    assert decode_proof(b"".join(encode_proof(proof))[HEAD_SIZE:]) == proof
    for body in (pack_flat([b"m"]), pack_flat([1, b""]), pack_flat([b"", b"", b""]), b"", b"x"):
        with pytest.raises(BadFrame):
            decode_proof(body)


# on real sockets


async def check_unaffected(process: Process) -> None:
    """Check that no input of a stranger was recorded or passed on, and that a peer can still connect."""
    assert process.transport.memory.records() == []
    assert len(process.turns) == len(process.beats) == 0
    peer = Process(identity_of(2))
    async with run_processes(peer):
        peer.transport.set_addresses({process.node: process.address})
        await wait_until_connected(peer, int(process.node))


@on_both_loops
async def test_without_the_secret_no_peer_is_served_or_remembered() -> None:
    one = Process(identity_of(1))
    async with run_processes(one):
        for credentials in (Credentials(), OTHERS):
            for channel in Channel:
                raw = await RawPeer.connect(one.address)
                hostile = hello_of(2, channel, boot_epoch=2**53, journal_sequence=2**53)
                refusal = await raw.connect_handshake(hostile, credentials)
                assert isinstance(refusal, HandshakeRefusal)
                assert refusal.reason is Reason.UNAUTHENTICATED
                assert "--cluster-secret-file" in refusal.message
                assert await raw.wait_until_closed() == b""
                await raw.close()
        await check_unaffected(one)


def _frames_before_a_proof() -> Sequence[list[Any]]:
    return (
        encode_turn([heartbeat(1)]),
        encode_heartbeat(heartbeat_of(2, 1, 1)),
        encode_hello(pack_hello(hello_of(2))),
        encode_refusal(HandshakeRefusal(Reason.RETIRED_DISK, "you are gone", "blue", True)),
    )


@on_both_loops
async def test_frames_before_a_proof_are_not_accepted() -> None:
    one = Process(identity_of(1))
    async with run_processes(one):
        for frame in _frames_before_a_proof():
            raw = await RawPeer.connect(one.address)
            raw.write(*encode_hello(pack_hello(hello_of(2))))
            assert (await raw.read_frame()).kind is FrameKind.HELLO
            raw.write(*frame)
            assert await raw.wait_until_closed() == b""
            await raw.close()
        await check_unaffected(one)


@on_both_loops
async def test_a_replayed_handshake_is_refused() -> None:
    """The stranger sends all bytes that a peer sent on an earlier connection."""
    one = Process(identity_of(1))
    body = pack_hello(hello_of(2))
    async with run_processes(one):
        raw = await RawPeer.connect(one.address)
        raw.write(*encode_hello(body))
        transcript = transcript_of(body, bytes((await raw.read_frame()).body))
        recorded = encode_proof(CREDENTIALS.prove(ProvingSide.CONNECTOR, transcript))
        await raw.close()
        for _ in range(3):
            stranger = await RawPeer.connect(one.address)
            stranger.write(*encode_hello(body), *recorded)
            assert (await stranger.read_frame()).kind is FrameKind.HELLO
            assert (await stranger.read_frame()).kind is FrameKind.REFUSAL
            assert await stranger.wait_until_closed() == b""
            await stranger.close()
        await check_unaffected(one)


@on_both_loops
async def test_a_mirror_is_neither_a_peer_nor_ourselves() -> None:
    """The mirror returns all input; its claims have no consequences."""
    one = Process(identity_of(1))
    told: list[HandshakeRefusal] = []
    one.transport.on_refused = told.append

    async def mirror(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(mirror, "127.0.0.1", 0)
    async with server, run_processes(one):
        with pytest.raises(HandshakeRefused) as refusal:
            await one.transport.probe(server.sockets[0].getsockname(), Call("x"))
        assert refusal.value.reason == Reason.UNAUTHENTICATED
        assert told == []
        await check_unaffected(one)


@pytest.mark.parametrize("reason", [Reason.RETIRED_DISK, Reason.STALE_BOOT_EPOCH, Reason.SELF, Reason.CLUSTER_ID])
def test_a_refusal_of_a_stranger_has_no_consequence(reason: Reason) -> None:
    """A valid member's refusal could make this process give up its disk."""
    hostile = HandshakeRefusal(reason, "your disk is an old copy", "blue", True)

    async def refuse_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"".join(encode_refusal(hostile)))
        await RawPeer(reader, writer).close()

    async def refuse_in_a_proof(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raw = RawPeer(reader, writer)
        their_body, our_body = bytes((await raw.read_frame()).body), pack_hello(hello_of(2, Channel.PROBE))
        raw.write(*encode_hello(our_body))
        await raw.read_frame()
        transcript = transcript_of(their_body, our_body)
        raw.write(*encode_proof(OTHERS.prove(ProvingSide.ACCEPTOR, transcript, pack_refusal(hostile))))
        await raw.wait_until_closed()
        await raw.close()

    async def attack() -> None:
        one = Process(identity_of(1))
        told: list[HandshakeRefusal] = []
        one.transport.on_refused = told.append
        async with run_processes(one):
            for server_side, expected in (
                (refuse_at_once, Reason.UNKNOWN),
                (refuse_in_a_proof, Reason.UNAUTHENTICATED),
            ):
                async with await asyncio.start_server(server_side, "127.0.0.1", 0) as server:
                    with pytest.raises(HandshakeRefused) as refusal:
                        await one.transport.probe(server.sockets[0].getsockname(), Call("x"))
                    assert refusal.value.reason == expected
            assert told == []

    asyncio.run(asyncio.wait_for(attack(), 10))


@on_both_loops
async def test_a_refusal_of_a_member_has_its_consequence() -> None:
    one, two = Process(identity_of(1)), Process(identity_of(2))
    told: list[HandshakeRefusal] = []
    two.transport.on_refused = told.append
    one.transport.memory.is_retired = lambda disk: disk == two.identity.disk_uuid
    async with run_processes(one, two):
        with pytest.raises(HandshakeRefused) as refusal:
            await two.transport.probe(one.address, Call("x"))
        assert refusal.value.reason == told[0].reason == Reason.RETIRED_DISK


@on_both_loops
async def test_a_process_with_two_keys_connects_to_one_with_the_newer_key() -> None:
    both, new = (credentials_of(ClusterSecret(keys)) for keys in ((OLD, NEW), (NEW, OLD)))
    one, two = Process(identity_of(1), credentials=both), Process(identity_of(2), credentials=new)
    async with run_processes(one, two):
        one.transport.set_addresses({two.node: two.address})
        two.transport.set_addresses({one.node: one.address})
        await wait_until_connected(one, 2)
        await wait_until_connected(two, 1)


def test_a_process_without_a_secret_does_not_listen() -> None:
    async def listen() -> None:
        one = Process(identity_of(1), credentials=Credentials())
        with pytest.raises(InvalidArgument, match="raftlog cluster secret create"):
            await one.transport.start("127.0.0.1", 0)
        await one.transport.start("127.0.0.1", None)
        await one.transport.close()

    asyncio.run(listen())


# members of the cluster


@on_both_loops
async def test_raft_messages_of_an_unregistered_process_are_dropped() -> None:
    """The process has the secret, and may request its registration; its votes and entries do not count."""
    one = Process(identity_of(1), QUICK)
    one.transport.memory.is_member = one.transport.memory.has_assigned
    two = ReplicaId(NodeId(2), identity_of(2).disk_uuid)
    async with run_processes(one):
        raw = await RawPeer.connect(one.address)
        assert isinstance(await raw.connect_handshake(hello_of(2, rpc_address="there:9")), Hello)
        first, second = (
            [each._replace(message=each.message._replace(sender=two))] for each in (heartbeat(1), heartbeat(2))
        )
        raw.write(*encode_turn(first), *encode_heartbeat(heartbeat_of(2, 1, 1)))
        await until(lambda: one.transport.messages_from_outsiders)
        (outsider,) = one.transport.outsiders()
        assert (outsider.node_id, outsider.rpc_address) == (2, "there:9")
        one.transport.memory.assign_disk(two.node_id, two.disk_uuid)
        raw.write(*encode_turn(second))
        assert (await one.turns.next())[1] == second
        assert one.transport.messages_from_outsiders == 1
        assert len(one.beats) == 0
        assert one.transport.outsiders() == []
        await raw.close()


@on_both_loops
async def test_a_disk_of_another_node_is_refused() -> None:
    one = Process(identity_of(1))
    disk = identity_of(2).disk_uuid
    one.transport.memory.assign_disk(NodeId(2), disk)
    async with run_processes(one):
        raw = await RawPeer.connect(one.address)
        refusal = await raw.connect_handshake(hello_of(3, disk_uuid=disk, boot_epoch=1000))
        assert isinstance(refusal, HandshakeRefusal)
        assert refusal.reason is Reason.WRONG_DISK
        assert "belongs to node 2" in refusal.message
        await raw.close()
        await check_unaffected(one)
