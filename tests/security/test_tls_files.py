"""TLS contexts: usable and unusable files, and their errors."""

import shutil
import ssl
import warnings
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from raftlog.errors import InvalidArgument
from raftlog.security.client_tls import ClientTlsFiles, client_context, describe_failure
from raftlog.security.principals import certificate_principal
from raftlog.security.tls_files import ClientCertificates, ServerTls, ServerTlsFiles
from tests.security.certificates import create, create_self_signed, write_key


def shake_hands(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Do a handshake in memory; return both sides."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    connecting = client.wrap_bio(to_client, to_server, server_hostname=host)
    accepting = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [connecting, accepting]
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    return accepting, connecting


def test_both_sides_agree_on_modern_tls(tmp_path: Path) -> None:
    authority, node, _ = create(tmp_path)
    server = ServerTls(ServerTlsFiles(node.certificate, node.key))
    client = client_context(ClientTlsFiles(authority))
    for version, ciphers in ((ssl.TLSVersion.TLSv1_3, "TLS_"), (ssl.TLSVersion.TLSv1_2, "ECDHE-")):
        client.maximum_version = version
        for host in ("localhost", "127.0.0.1", "::1"):
            accepting, _ = shake_hands(server.context, client, host)
            cipher = accepting.cipher()
            assert cipher is not None
            assert cipher[0].startswith(ciphers)
        assert certificate_principal(accepting) is None


def test_old_versions_and_weak_ciphers_are_refused(tmp_path: Path) -> None:
    authority, node, _ = create(tmp_path)
    server = ServerTls(ServerTlsFiles(node.certificate, node.key))
    old = ssl.create_default_context(cafile=authority)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore"):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError, match=r"UNSUPPORTED_PROTOCOL|PROTOCOL_VERSION|NO_PROTOCOLS_AVAILABLE"):
        shake_hands(server.context, old)
    weak = ssl.create_default_context(cafile=authority)
    weak.maximum_version = ssl.TLSVersion.TLSv1_2
    weak.set_ciphers("ECDHE-ECDSA-AES256-SHA")
    with pytest.raises(ssl.SSLError, match=r"NO_SHARED_CIPHER|HANDSHAKE_FAILURE"):
        shake_hands(server.context, weak)


def test_clients_check_authority_and_host(tmp_path: Path) -> None:
    authority, node, _ = create(tmp_path / "ours")
    other, _, _ = create(tmp_path / "others")
    server = ServerTls(ServerTlsFiles(node.certificate, node.key))
    for files, host, words in (
        (ClientTlsFiles(authority), "db9.example.com", "was refused: Hostname mismatch"),
        (ClientTlsFiles(other), "localhost", r"not trusted: .*give the authority that signed it \(--ca"),
        (ClientTlsFiles(), "localhost", r"not trusted: .*give the authority that signed it \(--ca"),
    ):
        with pytest.raises(ssl.SSLCertVerificationError) as raised:
            shake_hands(server.context, client_context(files), host)
        with pytest.raises(AssertionError, match=words):
            raise AssertionError(describe_failure(raised.value))


@pytest.mark.parametrize("wanted", [ClientCertificates.OPTIONAL, ClientCertificates.REQUIRED])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_certificates_name_the_principal(
    tmp_path: Path, wanted: ClientCertificates, version: ssl.TLSVersion
) -> None:
    authority, node, clients = create(tmp_path / "ours", "alice")
    _, _, strangers = create(tmp_path / "others", "alice")
    server = ServerTls(ServerTlsFiles(node.certificate, node.key, authority, wanted))

    def connect(client: ClientTlsFiles) -> str | None:
        context = client_context(client)
        context.maximum_version = version
        return certificate_principal(shake_hands(server.context, context)[0])

    assert connect(ClientTlsFiles(authority, clients["alice"].certificate, clients["alice"].key)) == "CN=alice"
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        connect(ClientTlsFiles(authority, strangers["alice"].certificate, strangers["alice"].key))
    if wanted is ClientCertificates.OPTIONAL:
        assert connect(ClientTlsFiles(authority)) is None
    else:
        with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
            connect(ClientTlsFiles(authority))


def test_renewed_files_are_used_for_new_connections(tmp_path: Path) -> None:
    """Certificate and authority change for clients with and without a server name, and broken files change nothing."""
    authority, node, clients = create(tmp_path / "old", "alice")
    new_authority, new_node, new_clients = create(tmp_path / "new", "alice")
    files = ServerTlsFiles(f"{tmp_path}/a", f"{tmp_path}/b", f"{tmp_path}/c", ClientCertificates.REQUIRED)

    def install(*sources: str) -> None:
        for source, path in zip(sources, files[:3], strict=True):
            shutil.copy(source, str(path))

    install(node.certificate, node.key, authority)
    server = ServerTls(files)
    old = client_context(ClientTlsFiles(authority, clients["alice"].certificate, clients["alice"].key))
    new = client_context(ClientTlsFiles(new_authority, new_clients["alice"].certificate, new_clients["alice"].key))
    shake_hands(server.context, old)
    install(node.certificate, new_node.key, new_authority)
    with pytest.raises(InvalidArgument, match="does not belong to the certificate"):
        server.reload()
    shake_hands(server.context, old)
    install(new_node.certificate, new_node.key, new_authority)
    server.reload()
    for host in ("localhost", "127.0.0.1"):  # OpenSSL sends no server name for an address
        shake_hands(server.context, new, host)
        with pytest.raises(ssl.SSLError):
            shake_hands(server.context, old, host)
    mixed = client_context(ClientTlsFiles(new_authority, clients["alice"].certificate, clients["alice"].key))
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shake_hands(server.context, mixed)


def test_unusable_files_are_refused_with_their_names(tmp_path: Path) -> None:
    authority, node, _ = create(tmp_path / "tls")
    expired, expired_key = create_self_signed(tmp_path, "expired", begins_in_days=-2, ends_in_days=-1)
    early, early_key = create_self_signed(tmp_path, "early", begins_in_days=1, ends_in_days=2)
    own, own_key = create_self_signed(tmp_path, "own")
    locked = tmp_path / "locked.key"
    write_key(locked, ec.generate_private_key(ec.SECP256R1()), b"secret")
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no certificate")
    required = ClientCertificates.REQUIRED
    for files, words in (
        (ServerTlsFiles(f"{tmp_path}/none.pem", node.key), r"certificate .*none\.pem cannot be read: No such file"),
        (ServerTlsFiles(node.certificate, f"{tmp_path}/none.key"), r"private key .*none\.key cannot be read"),
        (ServerTlsFiles(node.certificate, own_key), "private key .*own.key does not belong to the certificate"),
        (ServerTlsFiles(node.certificate, str(locked)), "is encrypted; raftlog reads it without a password"),
        (ServerTlsFiles(str(garbage), node.key), "garbage.pem .*have to be PEM files"),
        (ServerTlsFiles(expired, expired_key), r"expired\.pem expired on 2.*issue a new one"),
        (ServerTlsFiles(early, early_key), r"early\.pem is valid from .* check this machine's clock"),
        (ServerTlsFiles(own, own_key, None, required), "need the authority"),
        (ServerTlsFiles(own, own_key, str(garbage), required), r"authority .*garbage\.pem cannot be used"),
        (ServerTlsFiles(own, own_key, f"{tmp_path}/none", required), "authority .*none cannot be read"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            ServerTls(files)
    with pytest.raises(InvalidArgument, match="needs its certificate"):
        client_context(ClientTlsFiles(authority, None, node.key))
    with pytest.raises(InvalidArgument, match="cannot be read"):
        client_context(ClientTlsFiles(f"{tmp_path}/none.pem"))
