"""Addresses with TLS, and the files for connections to them."""

import base64
import pickle
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from raftlog.cli.options import bootstrap_option
from raftlog.client import BrokerAddresses, BrokerClient
from raftlog.client.addresses import base_url, host_of, parse_address
from raftlog.client.transport import HttpTransport
from raftlog.errors import InvalidArgument
from tests.security.certificates import create


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("https://db1:8082", "https://db1:8082"),
        (" HTTPS://[::1]:8082/ ", "https://[::1]:8082"),
        ("https://db1", "https://db1:8082"),
        ("http://db1:80", "db1:80"),
        ("db1:8082", "db1:8082"),
    ],
)
def test_addresses_have_one_normal_form(given: str, expected: str) -> None:
    assert parse_address(given) == expected
    assert base_url(expected) == (expected if "://" in expected else f"http://{expected}")
    assert host_of(expected) == expected.removeprefix("https://")


@pytest.mark.parametrize("given", ["https://", "https://db1:8082/topics", "ftp://db1:8082", "https://a@db1:80"])
def test_other_urls_are_refused(given: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a broker address"):
        parse_address(given)


def test_a_bootstrap_keeps_its_files() -> None:
    one = BrokerAddresses("https://db1:8082,https://db2:8082", ca="ca.pem", certificate="a.pem", key="a.key")
    assert list(one) == ["https://db1:8082", "https://db2:8082"]
    assert one[0] == "https://db1:8082"
    assert BrokerAddresses.of(one) is one
    assert pickle.loads(pickle.dumps(one)) == one
    other = one.with_addresses(["https://db3:8082"])
    assert (list(other), other.tls) == (["https://db3:8082"], one.tls)
    assert other != one
    assert hash(one) == hash(one.with_addresses(one))
    assert "ca.pem" not in repr(one)
    assert one.headers() == {}
    assert one.is_secure
    assert not one.with_addresses(["https://db1:1", "db1:2"]).is_secure
    assert BrokerAddresses.of("db1:8082").ssl_context() is None


async def test_unusable_files_are_refused_by_clients(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read"):
        BrokerClient(BrokerAddresses("https://db1:8082", ca=f"{tmp_path}/none.pem"))


def test_a_user_logs_in_with_the_password_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secrét word \nsecond line\n", encoding="utf-8")
    found = BrokerAddresses("db1:8082", user="alice", password_file=str(file))
    assert base64.b64decode(found.headers()["Authorization"].removeprefix("Basic ")) == "alice:secrét word ".encode()
    assert pickle.loads(pickle.dumps(found)).headers() == found.headers()
    assert found != BrokerAddresses("db1:8082")
    file.write_text("\n")
    with pytest.raises(InvalidArgument, match=r"password is empty; the password is its first line"):
        found.headers()
    file.write_bytes(b"\xff\xff")
    with pytest.raises(InvalidArgument, match="it is not UTF-8"):
        found.headers()
    with pytest.raises(InvalidArgument, match="cannot be read: No such file"):
        BrokerAddresses("db1:8082", user="alice", password_file=f"{tmp_path}/none").headers()
    with pytest.raises(InvalidArgument, match="needs both a user and a file"):
        BrokerAddresses("db1:8082", user="alice")


async def test_brokers_cannot_downgrade_a_client_to_plain_text(tmp_path: Path) -> None:
    authority, _, _ = create(tmp_path)
    async with HttpTransport(BrokerAddresses("https://db1:8082", ca=authority)) as transport:
        transport.add(["db2:8082", "https://db3:8082", "no address"])
        assert transport._list_addresses(None) == ["https://db1:8082", "https://db3:8082"]
    async with HttpTransport("db1:8082") as transport:
        transport.add(["db2:8082", "https://db3:8082"])
        assert transport._list_addresses(None) == ["db1:8082", "db2:8082", "https://db3:8082"]


def test_commands_take_the_files_from_flags_and_variables() -> None:
    @click.command()
    @bootstrap_option
    def show(bootstrap: BrokerAddresses) -> None:
        click.echo([*bootstrap, *bootstrap.tls])

    def run(*args: str, **variables: str) -> str:
        environment = {f"RAFTLOG_{name}": value for name, value in variables.items()}
        return CliRunner().invoke(show, args, env=environment).output

    flags = ("--client-key", "k", "--bootstrap", "https://a:1,b:2", "--ca", "c", "--client-certificate", "d")
    assert run(*flags) == "['https://a:1', 'b:2', 'c', 'd', 'k']\n"
    assert run(CA="c", BOOTSTRAP="https://a:1", CLIENT_CERTIFICATE="d") == "['https://a:1', 'c', 'd', None]\n"
    assert run(USER="u", PASSWORD_FILE="p") == "['127.0.0.1:8082', None, None, None]\n"
    assert run() == "['127.0.0.1:8082', None, None, None]\n"
