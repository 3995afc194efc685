"""TLS between processes: connections need certificates of one authority on both sides."""

import asyncio
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from raftlog.cli.serve.cluster_options import cluster_settings_from
from raftlog.errors import InvalidArgument
from raftlog.runtime.rpc.authentication import Credentials
from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.handshake import HandshakeRefusal, Reason, encode_hello, pack_hello
from raftlog.runtime.rpc.tls import TlsFiles, check_certificate, check_host, load_tls
from raftlog.types import NodeId
from tests.rpc.loops import FACTORIES
from tests.rpc.messages import append
from tests.rpc.processes import (
    CREDENTIALS,
    Process,
    RawPeer,
    envelopes_of,
    hello_of,
    identity_of,
    run_cluster,
    run_processes,
)
from tests.waiting import until

QUICK = RpcConfig(reconnect_min_ms=5, reconnect_max_ms=20, close_timeout_ms=200, handshake_timeout_ms=300)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


def _create_authority(directory: Path, name: str) -> TlsFiles:
    """Create an authority, and a certificate for loopback signed by it."""
    key, ca = f"{directory}/{name}.ca.key", f"{directory}/{name}.ca.pem"
    _openssl("req", "-x509", *_CURVE, "-keyout", key, "-out", ca, "-subj", f"/CN={name} authority")
    return _create_certificate(directory, name, name, "")


def _create_certificate(directory: Path, authority: str, name: str, further: str) -> TlsFiles:
    """Create a certificate for loopback and these additional names."""
    key, ca = f"{directory}/{authority}.ca.key", f"{directory}/{authority}.ca.pem"
    files = TlsFiles(f"{directory}/{name}.pem", f"{directory}/{name}.key", ca)
    names = ["-addext", f"subjectAltName=IP:127.0.0.1,DNS:localhost{further}"]
    subject = ["-keyout", files.key, "-out", files.certificate, "-subj", f"/CN={name}"]
    _openssl("req", "-x509", *_CURVE, *subject, *names, "-CA", ca, "-CAkey", key)
    return files


@pytest.fixture(scope="module")
def named(ours: TlsFiles) -> Callable[[int], TlsFiles]:
    """Return certificates of our authority that name a node."""
    directory = Path(ours.certificate).parent
    return lambda node: _create_certificate(directory, "ours", f"node-{node}", f",URI:raftlog:node:{node}")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return _create_authority(tmp_path_factory.mktemp("ours"), "ours")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return _create_authority(tmp_path_factory.mktemp("others"), "others")


@pytest.fixture(params=FACTORIES, ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> asyncio.Runner:
    return asyncio.Runner(loop_factory=request.param)


def test_processes_with_certificates_communicate(runner: asyncio.Runner, ours: TlsFiles) -> None:
    async def talk() -> None:
        one, two = (Process(identity_of(node), QUICK, load_tls(ours)) for node in (1, 2))
        async with run_cluster(one, two):
            turn = [append(1, 10, 300_000)]
            one.transport.send(two.node, turn)
            assert envelopes_of(await two.turns.next()) == turn
            payload = (bytes(2_000_000), b"x")
            assert await two.transport.call(one.node, Call("echo", 1, payload)) == Answer([2, 1], payload)

    with runner:
        runner.run(asyncio.wait_for(talk(), 20))


def test_strangers_cannot_connect(runner: asyncio.Runner, ours: TlsFiles, others: TlsFiles) -> None:
    """Strangers use another authority, no certificate, no TLS, garbage, or send nothing."""

    async def attack() -> None:
        one = Process(identity_of(1), QUICK, load_tls(ours))
        without = ssl.create_default_context(cafile=ours.authority)
        stranger = ssl.create_default_context(cafile=ours.authority)
        stranger.load_cert_chain(others.certificate, others.key)
        async with run_processes(one):
            for context in (without, stranger):
                with pytest.raises((OSError, EOFError)):
                    await _speak_tls(one.address, context)
            for garbage in (b"".join(encode_hello(pack_hello(hello_of(2)))), b"GET / HTTP/1.1\r\n\r\n", b""):
                raw = await RawPeer.connect(one.address)
                raw.write(garbage)
                await raw.wait_until_closed()
                await raw.close()
            assert one.transport.protocol_errors == 5
            assert len(one.turns) == 0
            two = Process(identity_of(2), QUICK, load_tls(ours))
            async with run_processes(two):
                two.transport.set_addresses({one.node: one.address})
                await two.wait_for_channels(1)

    with runner:
        runner.run(asyncio.wait_for(attack(), 20))


async def _speak_tls(address: tuple[str, int], context: ssl.SSLContext) -> None:
    raw = RawPeer(*await asyncio.open_connection(*address, ssl=context))
    try:
        await raw.connect_handshake(hello_of(2))
    finally:
        await raw.close()


def test_a_server_of_another_authority_is_not_trusted(runner: asyncio.Runner, ours: TlsFiles, others: TlsFiles) -> None:
    async def connect() -> None:
        one, two = Process(identity_of(1), QUICK, load_tls(ours)), Process(identity_of(2), QUICK, load_tls(others))
        async with run_processes(one, two):
            one.transport.set_addresses({two.node: two.address})
            await until(lambda: two.transport.protocol_errors and one.transport.peers()[0].raft.last_error)
            assert "certificate" in str(one.transport.peers()[0].raft.last_error).lower()

    with runner:
        runner.run(asyncio.wait_for(connect(), 20))


def test_with_tls_any_address_is_allowed_for_listening(runner: asyncio.Runner, ours: TlsFiles) -> None:
    async def listen() -> None:
        one = Process(identity_of(1), QUICK, load_tls(ours))
        await one.transport.start("0.0.0.0", 0)
        assert one.transport.address[0] == "0.0.0.0"
        await one.transport.close()

    with runner:
        runner.run(listen())


def test_unusable_certificate_files_are_refused(ours: TlsFiles, others: TlsFiles, tmp_path: Path) -> None:
    missing = f"{tmp_path}/missing.pem"
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for files, words in (
        (ours._replace(certificate=missing), "certificate .*missing.pem cannot be read"),
        (ours._replace(key=others.key), "does not belong to the certificate"),
        (ours._replace(key=missing), "private key .*missing.pem cannot be read"),
        (ours._replace(certificate=str(empty)), "both have to be PEM files"),
        (ours._replace(authority=missing), "authority .*missing.pem"),
        (ours._replace(authority=str(empty)), "authority .*empty.pem"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            load_tls(files)


def test_a_certificate_with_the_node_id_needs_no_secret(
    runner: asyncio.Runner, named: Callable[[int], TlsFiles]
) -> None:
    """Its peer may have a secret, as during a migration."""

    async def talk() -> None:
        one, two = (
            Process(identity_of(node), QUICK, load_tls(named(node)), credentials=Credentials()) for node in (1, 2)
        )
        three = Process(identity_of(3), QUICK, load_tls(named(3)))
        async with run_cluster(one, two, three):
            assert await two.transport.call(one.node, Call("echo", 1)) == Answer([2, 1])
            assert await three.transport.call(one.node, Call("echo", 1)) == Answer([3, 1])

    with runner:
        runner.run(asyncio.wait_for(talk(), 20))


@pytest.mark.parametrize("with_secret", [False, True])
def test_a_certificate_of_another_node_is_refused(
    runner: asyncio.Runner, named: Callable[[int], TlsFiles], with_secret: bool
) -> None:
    """Both the accepting and the connecting side refuse it, and remember nothing of it."""
    credentials = CREDENTIALS if with_secret else Credentials()

    async def attack() -> None:
        one = Process(identity_of(1), QUICK, load_tls(named(1)), credentials=credentials)
        two = Process(identity_of(2), QUICK, load_tls(named(9)), credentials=credentials)
        async with run_processes(one, two):
            raw = RawPeer(*await asyncio.open_connection(*one.address, ssl=load_tls(named(9)).client))
            refusal = await raw.connect_handshake(hello_of(2), credentials)
            assert isinstance(refusal, HandshakeRefusal)
            assert refusal.reason is Reason.WRONG_CERTIFICATE
            assert "of raftlog:node:9" in refusal.message
            await raw.close()
            one.transport.set_addresses({two.node: two.address})
            error = await until(lambda: one.transport.peers()[0].raft.last_error)
            assert "the certificate is of raftlog:node:9, and the process introduces itself as node 2" in error
            assert one.transport.memory.records() == []

    with runner:
        runner.run(asyncio.wait_for(attack(), 20))


def test_without_a_name_in_the_certificate_the_secret_is_needed(runner: asyncio.Runner, ours: TlsFiles) -> None:
    async def attack() -> None:
        nameless = Process(identity_of(1), QUICK, load_tls(ours), credentials=Credentials())
        with pytest.raises(InvalidArgument, match="--cluster-secret-file"):
            await nameless.transport.start("127.0.0.1", 0)
        one = Process(identity_of(1), QUICK, load_tls(ours))
        async with run_processes(one):
            raw = RawPeer(*await asyncio.open_connection(*one.address, ssl=load_tls(ours).client))
            refusal = await raw.connect_handshake(hello_of(2), Credentials())
            assert isinstance(refusal, HandshakeRefusal)
            assert refusal.reason is Reason.UNAUTHENTICATED
            await raw.close()

    with runner:
        runner.run(asyncio.wait_for(attack(), 20))


def test_our_own_certificate_is_checked_and_its_names_are_read(
    ours: TlsFiles, others: TlsFiles, named: Callable[[int], TlsFiles]
) -> None:
    assert load_tls(ours).certified == frozenset()
    tls = load_tls(named(4))
    assert tls.certified == {4}
    check_certificate(tls, NodeId(4))
    with pytest.raises(InvalidArgument, match=r"the certificate is of node 4 .*, and this is node 5"):
        check_certificate(tls, NodeId(5))
    with pytest.raises(InvalidArgument, match="cannot be used for connections in both directions with the authority"):
        load_tls(others._replace(authority=ours.authority))


def test_a_certificate_without_the_address_of_its_node_is_refused(ours: TlsFiles, tmp_path: Path) -> None:
    check_host(load_tls(ours), "127.0.0.1")
    check_host(load_tls(ours), "localhost")
    with pytest.raises(
        InvalidArgument, match=r"at 10\.0\.0\.1, .* the certificate has only IP Address:127\.0\.0\.1, DNS:loc"
    ):
        check_host(load_tls(ours), "10.0.0.1")
    check_host(load_tls(ours._replace(check_names=False)), "10.0.0.1")
    authority = Path(ours.authority)
    bare = TlsFiles(f"{tmp_path}/bare.pem", f"{tmp_path}/bare.key", ours.authority)
    request = ("-keyout", bare.key, "-out", bare.certificate, "-subj", "/CN=127.0.0.1")
    _openssl("req", "-x509", *_CURVE, *request, "-CA", str(authority), "-CAkey", str(authority.with_suffix(".key")))
    with pytest.raises(InvalidArgument, match="subject alternative names, and the certificate has none"):
        check_host(load_tls(bare), "127.0.0.1")
    tls = {"rpc_certificate": bare.certificate, "rpc_key": bare.key, "rpc_authority": bare.authority}
    others = {"seeds": "", "cluster_id": None, "host_label": "", "cluster_secret_file": None}
    for rpc, advertised in (("127.0.0.1:9001", None), ("0.0.0.0:9001", "db1:9001")):
        with pytest.raises(InvalidArgument, match="the certificate has none"):
            cluster_settings_from({"rpc": rpc, "advertise_rpc": advertised, **tls, **others}, insecure=False)


def test_a_refusal_of_our_certificate_is_logged_with_its_reason(
    runner: asyncio.Runner, ours: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async def attack() -> None:
        one = Process(identity_of(1), QUICK, load_tls(ours))
        strict = load_tls(ours).client
        async with run_processes(one):
            host, port = one.address
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.open_connection(host, port, ssl=strict, server_hostname="db9")
            await until(lambda: one.transport.protocol_errors)

    with runner:
        runner.run(asyncio.wait_for(attack(), 20))
    [told] = [line for line in caplog.messages if "no TLS: " in line]
    assert len(told.split("no TLS: ")[1]) > 20


def test_renewed_files_are_used_by_new_connections(
    runner: asyncio.Runner, ours: TlsFiles, others: TlsFiles, named: Callable[[int], TlsFiles], tmp_path: Path
) -> None:
    """A process without the new authority is refused, and files of another node or a broken one change nothing."""

    def install(new: TlsFiles) -> None:
        for path, source in zip(files[:3], new[:3], strict=True):
            Path(path).write_bytes(Path(source).read_bytes())

    async def renew() -> None:
        install(ours)
        tls = load_tls(files)
        one = Process(identity_of(1), QUICK, tls)
        async with run_processes(one):
            before = await asyncio.open_connection(*one.address, ssl=load_tls(ours).client)
            for unusable in (named(1), ours._replace(key=others.key)):
                install(unusable)
                with pytest.raises(InvalidArgument, match=r"names other nodes|does not belong"):
                    tls.reload()
            (await asyncio.open_connection(*one.address, ssl=load_tls(ours).client))[1].close()
            install(others)
            tls.reload()
            (await asyncio.open_connection(*one.address, ssl=load_tls(others).client))[1].close()
            with pytest.raises((OSError, EOFError)):
                await _speak_tls(one.address, load_tls(ours).client)
            assert not before[1].is_closing()
            before[1].close()
            assert tls.client is not tls.server

    files = TlsFiles(f"{tmp_path}/own.pem", f"{tmp_path}/own.key", f"{tmp_path}/authority.pem")
    with runner:
        runner.run(asyncio.wait_for(renew(), 20))


def test_a_private_key_readable_by_others_is_logged_as_a_warning(
    ours: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    key = Path(ours.key)
    key.chmod(0o640)
    load_tls(ours)
    assert not caplog.messages
    key.chmod(0o644)
    load_tls(ours)
    [record] = caplog.records
    assert (record.message, record.path, record.mode) == ("private_key_readable", str(key), "644")  # type: ignore[attr-defined]
    key.chmod(0o600)
