"""Programs that connect to the RPC port of real brokers without being brokers: nothing that they send has an effect.

A stranger without the secret, one that replays the handshake of a broker, and a process whose certificate names
another node try the same attacks: disks that are claimed with a later boot epoch, votes in the last term, a second
leader, control batches that open to hundreds of MiB, records and trims.
"""

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import cramjam
import pytest

from raftlog.partitions.controller.machine import GroupName, controller_group_id
from raftlog.raft import Entry, EntryId, EntryKind, ReplicaId
from raftlog.raft.entry import TERM_MAX
from raftlog.raft.messages import AppendRequest, Heartbeat, VoteRequest
from raftlog.records import build_batch
from raftlog.runtime.log.control_entries import build_no_op_batch
from raftlog.runtime.rpc.authentication import Proof, encode_proof
from raftlog.runtime.rpc.calls import Call, encode_call
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.frames.codec import encode_turn
from raftlog.runtime.rpc.handshake import (
    NONCE_SIZE,
    PROTOCOL_VERSION,
    Channel,
    Hello,
    PeerIdentity,
    encode_hello,
    pack_hello,
)
from raftlog.runtime.transport import Envelope
from raftlog.testing import BrokerProcess, Cluster
from raftlog.testing.http import ask
from raftlog.testing.ports import address_of, reserve_port
from raftlog.types import Index, NodeId, Term
from tests.integration.cluster_load import create_topic
from tests.rpc.processes import RawPeer

LARGEST = 1 << 53
CONFIG = RpcConfig()
Connect = Callable[[tuple[str, int]], Awaitable[RawPeer]]


def read_state(cluster: Cluster) -> dict[str, Any]:
    """Return the state that must not change: the leader, elections, disks, and the records."""
    one = cluster.nodes[1]
    return {
        "leader": cluster.leader("t"),
        "elections": sum(log.count('"leader_elected"') for log in cluster.logs().values()),
        "disks": {row["node_id"]: (row["disk_uuid"], row["boot_epoch"]) for row in one.get("/v1/brokers")},
        "offsets": one.get("/topics/t/partitions/0/offsets"),
        "records": one.get("/topics/t/partitions/0/records?offset=0&timeout=0"),
    }


def fetch_records(cluster: Cluster) -> None:
    body = {"records": [{"value": number} for number in range(20)]}
    status, answer = ask(cluster.addresses[0], "/topics/t", method="POST", body=body)
    assert status == 200, answer


def claimable_identities(cluster: Cluster) -> dict[int, PeerIdentity]:
    """Return each broker's identity as published over HTTP, with the largest numbers that can be claimed."""
    cluster_id = cluster.nodes[1].ready["cluster_id"]
    return {
        row["node_id"]: PeerIdentity(cluster_id, NodeId(row["node_id"]), UUID(row["disk_uuid"]), LARGEST, LARGEST, "x")
        for row in cluster.nodes[1].get("/v1/brokers")
    }


def group_ids_of(cluster: Cluster, cluster_id: str) -> list[bytes]:
    """Return the ids of the controller's Raft group and of the topic's."""
    return [controller_group_id(UUID(cluster_id)).bytes, GroupName(topic_id(cluster), 0).group_id.bytes]


def topic_id(cluster: Cluster) -> UUID:
    return UUID(cluster.nodes[1].get("/v3/clusters/-/topics/t")["topic_id"])


def hostile_frames(me: PeerIdentity, to: PeerIdentity, group_ids: list[bytes], topic: bytes) -> list[list[Any]]:
    """Return the frames that each attack sends after its handshake."""
    sender, receiver = ReplicaId(me.node_id, me.disk_uuid), ReplicaId(to.node_id, to.disk_uuid)
    batch = bytearray(build_no_op_batch(1_000))
    bomb = bytes(cramjam.zstd.compress(bytes(200 << 20)))
    batch = batch[:61] + bomb
    batch[22] |= 4
    frames: list[list[Any]] = []
    for group_id in group_ids:
        entry = Entry(Index(2), Term(1), EntryKind.NO_OP, len(batch), bytes(batch))
        append = AppendRequest(sender, receiver, Term(9), 1, EntryId(Index(1), Term(0)), (entry,), Index(0))
        for message in (
            VoteRequest(sender, receiver, Term(TERM_MAX), 1, EntryId(Index(1 << 40), Term(9)), True),
            Heartbeat(sender, receiver, Term(1), 1, Index(0)),
            Heartbeat(sender, receiver, Term(2), 1, Index(0)),
            append,
        ):
            frames.append(encode_turn([Envelope(group_id, message)]))
    frames.append(encode_call(1, Call("data.trim", [topic, 0, 1_000, {"before": 20}]), CONFIG))
    frames.append(encode_call(1, Call("data.produce", [topic, 0, -1], (bytes(build_batch([b"hostile"])),)), CONFIG))
    return frames


async def attack(cluster: Cluster, connect: Connect, shake: Callable[[RawPeer, bytes], Awaitable[None]]) -> None:
    """Run every attack against every broker, in the name of every other broker and of an unknown node."""
    known = claimable_identities(cluster)
    cluster_id = known[1].cluster_id
    assert cluster_id is not None
    group_ids = group_ids_of(cluster, cluster_id)
    topic = topic_id(cluster).bytes
    nobody = PeerIdentity(None, NodeId(99), UUID(int=99), 1, 1, "x")
    for number, node in cluster.nodes.items():
        assert node.rpc_bound is not None
        host, _, port = node.rpc_bound.rpartition(":")
        for claimed in (*(each for each in known.values() if each.node_id != number), nobody):
            for frame in hostile_frames(claimed, known[number], group_ids, topic):
                raw = await connect((host, int(port)))
                hello = pack_hello(Hello(PROTOCOL_VERSION, Channel.RAFT, b"hostile!", claimed, bytes(NONCE_SIZE)))
                raw.write(*encode_hello(hello))
                with contextlib.suppress(EOFError, ConnectionError):
                    await shake(raw, hello)
                    raw.write(*frame)
                await raw.wait_until_closed()
                await raw.close()


def require_unharmed(cluster: Cluster, before: dict[str, Any]) -> None:
    """Check that nothing changed, all brokers run, and a restarted broker is accepted under its identity."""
    assert all(node.is_running for node in cluster.nodes.values())
    cluster.wait_healthy()
    assert read_state(cluster) == before
    restarted = next(number for number in cluster.nodes if number != before["leader"])
    cluster.nodes[restarted].restart()
    cluster.wait_healthy()
    node, (disk, boot_epoch) = restarted, before["disks"][restarted]
    assert read_state(cluster)["disks"] == {**before["disks"], node: (disk, boot_epoch + 1)}
    fetch_records(cluster)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, with_cuts=False, with_gossip=False) as three:
        create_topic(three.addresses[0], "t")
        fetch_records(three)
        three.wait_healthy()
        yield three


def test_a_peer_without_the_secret_has_no_effect(cluster: Cluster) -> None:
    before = read_state(cluster)

    async def send_no_proof(raw: RawPeer, hello: bytes) -> None:
        await raw.read_frame()

    async def send_empty_proof(raw: RawPeer, hello: bytes) -> None:
        await raw.read_frame()
        raw.write(*encode_proof(Proof(b"")))

    async def attack_all() -> None:
        for shake in (send_no_proof, send_empty_proof):
            await attack(cluster, RawPeer.connect, shake)

    asyncio.run(attack_all())
    require_unharmed(cluster, before)


def test_a_replayed_handshake_has_no_effect(cluster: Cluster, tmp_path: Path) -> None:
    """The handshake of a joining broker is recorded, and all that it sent is sent again."""
    before = read_state(cluster)
    recorded = asyncio.run(record_handshake(cluster, tmp_path))

    async def replay(raw: RawPeer, hello: bytes) -> None:
        raw.write(recorded)

    async def attack_all() -> None:
        await attack(cluster, RawPeer.connect, replay)
        for node in cluster.nodes.values():
            assert node.rpc_bound is not None
            host, _, port = node.rpc_bound.rpartition(":")
            raw = await RawPeer.connect((host, int(port)))
            raw.write(recorded)
            assert (await raw.read_frame()).kind.name == "HELLO"
            assert (await raw.read_frame()).kind.name == "REFUSAL"
            await raw.wait_until_closed()
            await raw.close()

    asyncio.run(attack_all())
    require_unharmed(cluster, before)


async def record_handshake(cluster: Cluster, tmp_path: Path) -> bytes:
    """Forward data between a real broker and a member; return the data that the broker sent."""
    sent: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    member = cluster.nodes[1].rpc_bound
    assert member is not None
    host, _, port = member.rpartition(":")

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection(host, int(port))

        async def forward_back() -> None:
            while data := await there.read(65_536):
                writer.write(data)

        answers, data = asyncio.ensure_future(forward_back()), b""
        while piece := await reader.read(65_536):
            data += piece
            here.write(piece)
        answers.cancel()
        for each in (here, writer):
            each.close()
        if not sent.done():
            sent.set_result(data)

    with reserve_port() as held:
        async with await asyncio.start_server(forward, "127.0.0.1", 0) as server:
            at = "{}:{}".format(*server.sockets[0].getsockname())
            flags = (
                "--node-id",
                "4",
                "--rpc",
                address_of(held),
                "--seeds",
                at,
                "--cluster-secret-file",
                cluster.secret_path,
            )
            joining = BrokerProcess(str(tmp_path / "joining"), *flags, "--gossip", "off", name="joining")
            try:
                joining.launch()
                return await asyncio.wait_for(sent, 20)
            finally:
                await asyncio.to_thread(joining.close)


# certificates

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


def _require_openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def make_certificates(directory: Path) -> Callable[[int], dict[str, str]]:
    """Create a certificate authority; return a function that makes a node's certificate, as environment variables."""
    key, authority = f"{directory}/ca.key", f"{directory}/ca.pem"
    _require_openssl("req", "-x509", *_CURVE, "-keyout", key, "-out", authority, "-subj", "/CN=authority")

    def make_certificate(node: int) -> dict[str, str]:
        own_key, certificate = f"{directory}/{node}.key", f"{directory}/{node}.pem"
        if not Path(certificate).exists():
            names = f"subjectAltName=IP:127.0.0.1,URI:raftlog:node:{node}"
            subject = ("-keyout", own_key, "-out", certificate, "-subj", f"/CN=node {node}", "-addext", names)
            _require_openssl("req", "-x509", *_CURVE, *subject, "-CA", authority, "-CAkey", key)
        return {
            "RAFTLOG_RPC_CERTIFICATE": certificate,
            "RAFTLOG_RPC_KEY": own_key,
            "RAFTLOG_RPC_AUTHORITY": authority,
        }

    return make_certificate


def test_a_certificate_of_another_node_is_refused(tmp_path: Path) -> None:
    """The certificate has the same authority, and the attacker has the secret."""
    certificate = make_certificates(tmp_path)
    environment: Callable[[int], Mapping[str, str]] = certificate
    with Cluster(3, with_cuts=False, with_gossip=False, environment=environment) as cluster:
        create_topic(cluster.addresses[0], "t")
        fetch_records(cluster)
        cluster.wait_healthy()
        before = read_state(cluster)
        files = certificate(9)
        context = ssl.create_default_context(cafile=files["RAFTLOG_RPC_AUTHORITY"])
        context.load_cert_chain(files["RAFTLOG_RPC_CERTIFICATE"], files["RAFTLOG_RPC_KEY"])

        async def connect(address: tuple[str, int]) -> RawPeer:
            return RawPeer(*await asyncio.open_connection(*address, ssl=context, server_hostname="127.0.0.1"))

        async def as_it_is(raw: RawPeer, hello: bytes) -> None:
            await raw.read_frame()
            raw.write(*encode_proof(Proof(b"")))
            assert (await raw.read_frame()).kind.name == "REFUSAL"

        asyncio.run(attack(cluster, connect, as_it_is))
        require_unharmed(cluster, before)
        assert any("the certificate is of raftlog:node:9" in log for log in cluster.logs().values())
