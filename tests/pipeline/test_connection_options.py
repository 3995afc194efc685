"""Options of the data source for connections with TLS and logins; Spark's plans show no secret."""

import pickle

import pytest

from raftlog.client import BrokerAddresses
from raftlog.errors import InvalidArgument
from raftlog.pipeline.brokers.connection import parse_addresses
from raftlog.pipeline.brokers.settings import batch_settings, stream_settings
from raftlog.pipeline.options import connection_options
from raftlog.pipeline.sink.settings import sink_settings

GIVEN = {
    "bootstrap": "https://db1:8082,https://db2:8082",
    "ca": "/etc/ca.pem",
    "clientCertificate": "/etc/client.pem",
    "clientKey": "/etc/client.key",
    "user": "alice",
    "passwordFile": "/etc/password",
}
ADDRESSES = BrokerAddresses(
    GIVEN["bootstrap"],
    ca="/etc/ca.pem",
    certificate="/etc/client.pem",
    key="/etc/client.key",
    user="alice",
    password_file="/etc/password",
)


def test_readers_and_writers_take_them() -> None:
    for settings in (
        batch_settings({**GIVEN, "topics": "a"}),
        stream_settings({**GIVEN, "topics": "a"}),
        sink_settings(GIVEN, is_stream=False),
    ):
        assert settings.bootstrap == ADDRESSES
        assert pickle.loads(pickle.dumps(settings)).bootstrap == ADDRESSES


def test_without_them_addresses_are_plain() -> None:
    assert sink_settings({"bootstrap": "db1:1,db2:1"}, is_stream=False).bootstrap == ("db1:1", "db2:1")
    assert connection_options(("db1:1", "db2:1")) == {"bootstrap": "db1:1,db2:1"}


def test_jobs_pass_them_on() -> None:
    assert parse_addresses(ADDRESSES) is ADDRESSES
    assert connection_options(ADDRESSES) == GIVEN
    assert connection_options(BrokerAddresses("db1:1", user="alice", password_file="p")) == {
        "bootstrap": "db1:1",
        "user": "alice",
        "passwordFile": "p",
    }


def test_a_user_needs_a_password() -> None:
    with pytest.raises(InvalidArgument, match="password"):
        sink_settings({"bootstrap": "db1:1", "user": "alice"}, is_stream=False)


def test_the_settings_do_not_show_the_files() -> None:
    assert "/etc" not in repr(sink_settings(GIVEN, is_stream=False))
