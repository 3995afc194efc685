"""The private authority: names, usages, modes of files, refusals."""

import datetime
import json
import ssl
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from raftlog.cli.entry import raftlog
from raftlog.errors import InvalidArgument
from raftlog.runtime.rpc.tls import TlsFiles, check_host, load_tls
from raftlog.security.authority import PrivateAuthority


def read(path: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(Path(path).read_bytes())


def test_certificates_of_brokers_work_between_brokers(tmp_path: Path) -> None:
    authority = PrivateAuthority(f"{tmp_path}/tls")
    one, two = authority.issue((1, 2), ("db1.example.com", "10.0.0.7", "[fd00::1]", "10.0.0.7"))
    for node, issued in ((1, one), (2, two)):
        tls = load_tls(TlsFiles(issued.certificate, issued.key, authority.certificate))
        assert tls.certified == {node}
        for host in ("127.0.0.1", "::1", "localhost", "db1.example.com", "10.0.0.7", "fd00::1"):
            check_host(tls, host)
        with pytest.raises(InvalidArgument, match="cannot be used at"):
            check_host(tls, "db2.example.com")
    assert one.names == ("db1.example.com", "10.0.0.7", "fd00::1", "127.0.0.1", "::1", "localhost", "raftlog:node:1")


def test_certificates_of_clients_are_for_clients_only(tmp_path: Path) -> None:
    authority = PrivateAuthority(str(tmp_path))
    [issued] = authority.issue(clients=("alice",))
    assert issued.subject == "CN=alice"
    usage = read(issued.certificate).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    with pytest.raises(InvalidArgument, match="in both directions"):
        load_tls(TlsFiles(issued.certificate, issued.key, authority.certificate))


def test_keys_can_be_read_by_their_owner_only(tmp_path: Path) -> None:
    directory = tmp_path / "tls"
    PrivateAuthority(str(directory)).issue((1,), clients=("alice",))
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    keys = sorted(path.name for path in directory.glob("*.key"))
    assert keys == ["authority.key", "client-alice.key", "node-1.key"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.glob("*.key")} == {0o600}


def test_existing_files_are_never_replaced(tmp_path: Path) -> None:
    authority = PrivateAuthority(str(tmp_path))
    authority.issue((1,))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InvalidArgument, match=r"node-1\.pem exists already; move it away"):
        PrivateAuthority(str(tmp_path)).issue((2, 1))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    Path(f"{tmp_path}/node-3.key").symlink_to("/nowhere")
    with pytest.raises(InvalidArgument, match=r"node-3\.key exists already"):
        authority.issue((3,))
    [later] = PrivateAuthority(str(tmp_path)).issue((2,))
    read(later.certificate).verify_directly_issued_by(read(authority.certificate))


def test_no_certificate_outlives_the_authority(tmp_path: Path) -> None:
    authority = PrivateAuthority(str(tmp_path))
    [issued] = authority.issue((1,), days=3_650)
    end = read(authority.certificate).not_valid_after_utc
    assert end - datetime.timedelta(days=1) < issued.expires <= end
    [short] = authority.issue((2,), days=1)
    assert short.expires < datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1, minutes=1)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"nodes": (1,), "hosts": ("db1:9001",)}, "is not a host"),
        ({"nodes": (1,), "hosts": ("a b",)}, "is not a host"),
        ({"nodes": (1,), "hosts": ("",)}, "is not a host"),
        ({"nodes": (-1,)}, "is not a node id"),
        ({"clients": ("../alice",)}, "cannot be the name"),
        ({"clients": ("",)}, "cannot be the name"),
        ({"nodes": (1,), "days": 0}, "give 1 to"),
        ({"nodes": (1,), "hosts": tuple(f"db{number}" for number in range(70))}, "at most 64"),
    ],
)
def test_invalid_names_are_refused(tmp_path: Path, wanted: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        PrivateAuthority(str(tmp_path)).issue(**wanted)  # type: ignore[arg-type]
    assert {path.name for path in tmp_path.iterdir()} == {"authority.pem", "authority.key"}


def test_an_unusable_authority_is_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    PrivateAuthority(str(one))
    PrivateAuthority(str(two))
    (one / "authority.key").write_bytes((two / "authority.key").read_bytes())
    with pytest.raises(InvalidArgument, match=r"one/authority\.key is not the key of"):
        PrivateAuthority(str(one))
    (one / "authority.key").unlink()
    with pytest.raises(InvalidArgument, match=r"both .* are needed"):
        PrivateAuthority(str(one))
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="cannot be created"):
        PrivateAuthority(f"{tmp_path}/file")


def test_the_command_prints_the_files(tmp_path: Path) -> None:
    directory = f"{tmp_path}/tls"
    arguments = ("tls", "create", directory, "--node", "1", "--host", "db1", "--client", "alice")
    found = json.loads(CliRunner().invoke(raftlog, [*arguments, "--json"]).output)
    assert found["authority"] == f"{directory}/authority.pem"
    [node], [client] = found["nodes"], found["clients"]
    assert (node["node"], node["names"][0], client["subject"]) == (1, "db1", "CN=alice")
    for each in (node, client):
        ssl.create_default_context(cafile=found["authority"]).load_cert_chain(each["certificate"], each["key"])
    again = CliRunner().invoke(raftlog, arguments)
    assert "exists already" in str(again.exception)
    more = CliRunner().invoke(raftlog, ("tls", "create", directory, "--client", "bob"))
    assert more.output.startswith(f"CN=bob: {directory}/client-bob.pem, ")
    assert CliRunner().invoke(raftlog, ("tls", "create", directory)).exit_code == 2
    assert CliRunner().invoke(raftlog, ("tls", "create", directory, "--host", "db2")).exit_code == 2
