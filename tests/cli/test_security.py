"""`raftlog user`, `acl` and `quota` against a real broker; passwords never are arguments."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from raftlog.cli.entry import raftlog
from raftlog.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, with_cuts=False) as brokers:
        yield brokers


def run(cluster: Cluster, *args: str, given: str | None = None, expect: int = 0) -> str:
    done = CliRunner().invoke(raftlog, [*args, "--bootstrap", cluster.addresses[0]], input=given)
    error = "" if done.exception is None else str(done.exception)
    assert (done.exit_code != 0) == (expect != 0), (done.output, error)
    return done.output + error


def as_json(cluster: Cluster, *args: str) -> Any:
    return json.loads(run(cluster, *args, "--json"))


def test_users_are_administered(cluster: Cluster) -> None:
    assert "created user alice" in run(cluster, "user", "create", "alice", "--password-stdin", given="secret\nrest\n")
    shown = run(cluster, "user", "create", "alice", "--password-stdin", given="secret\n", expect=1)
    assert "exists already; `raftlog user password`" in shown
    assert [each["name"] for each in as_json(cluster, "user", "list")] == ["alice"]
    assert "SCRAM-SHA-256, SCRAM-SHA-512" in run(cluster, "user", "list")
    assert "changed" in run(cluster, "user", "password", "alice", "--password-stdin", given="other\n")
    assert "--password-stdin" in run(cluster, "user", "create", "bob", given="secret\n", expect=2)
    assert "is empty" in run(cluster, "user", "create", "bob", "--password-stdin", given="\n", expect=2)
    assert "deleted user alice" in run(cluster, "user", "delete", "alice", "--yes")
    assert "`raftlog user list` shows the users" in run(cluster, "user", "delete", "alice", "--yes", expect=1)


def test_entries_of_access_control_are_administered(cluster: Cluster) -> None:
    topic = ("--topic", "ord", "--prefixed")
    made = as_json(cluster, "acl", "create", "--allow", "alice", "--deny", "*", *topic, "--operation", "read")
    assert [(each["permission"], each["principal"], each["pattern_type"]) for each in made] == [
        ("ALLOW", "User:alice", "PREFIXED"),
        ("DENY", "User:*", "PREFIXED"),
    ]
    assert sorted(as_json(cluster, "acl", "list"), key=str) == sorted(made, key=str)
    assert "ord…" in run(cluster, "acl", "list", *topic)
    assert as_json(cluster, "acl", "list", "--deny", "--principal", "alice") == []
    deny = [made[1]]
    assert as_json(cluster, "acl", "delete", "--deny", "--dry-run") == deny
    assert as_json(cluster, "acl", "delete", "--deny", "--yes") == deny
    assert as_json(cluster, "acl", "list") == [made[0]]
    for args, words in (
        (("delete",), "select the entries"),
        (("create", "--allow", "a", "--operation", "read"), "name the resource"),
        (("create", *topic, "--operation", "read"), "--allow or --deny"),
        (("list", "--topic", "t", "--group", "g"), "only one of"),
        (("list", "--prefixed"), "--prefixed needs"),
        (("list", "--allow", "--deny"), "not both"),
    ):
        assert words in run(cluster, "acl", *args, expect=2)


def test_quotas_are_administered(cluster: Cluster) -> None:
    assert "set" in run(cluster, "quota", "set", "producer_byte_rate=1000", "--user", "*", "--client-id", "app")
    expected = [{"entity": {"client-id": "app", "user": ""}, "quotas": {"producer_byte_rate": 1000.0}}]
    assert as_json(cluster, "quota", "list") == expected
    assert "client-id app, user (default)" in run(cluster, "quota", "list")
    assert "deleted" in run(cluster, "quota", "delete", "producer_byte_rate", "--user", "*", "--client-id", "app")
    assert as_json(cluster, "quota", "list") == []
    assert "NAME=NUMBER" in run(cluster, "quota", "set", "x", "--user", "a", expect=2)
    assert "name the clients" in run(cluster, "quota", "set", "x=1", expect=2)
    assert "does not exist" in run(cluster, "quota", "set", "x=1", "--user", "a", expect=1)
