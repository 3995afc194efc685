"""Verbs for topics and group offsets against a real broker."""

import json
from typing import Any

from raftlog.testing import BrokerProcess


def test_a_topic_is_created_listed_altered_and_deleted(broker: BrokerProcess, run: Any) -> None:
    at = ("--bootstrap", broker.address)
    done = run("topic", "create", "life", "-p", "3", "-c", "retention.ms=60000", "-c", "segment.bytes=1048576", *at)
    assert done.stdout == b"created life, 3 partitions\n"
    assert b"life" in run("topic", "list", *at).stdout.split()
    described = json.loads(run("topic", "describe", "life", "--json", *at).stdout)
    assert [row["partition"] for row in described["partitions"]] == [0, 1, 2]
    assert (described["configs"]["retention.ms"], described["partitions_count"]) == ("60000", 3)
    run("topic", "alter", "life", "-c", "retention.ms=-1", "--reset", "segment.bytes", *at)
    configs = json.loads(run("topic", "describe", "life", "--json", *at).stdout)["configs"]
    assert configs["retention.ms"] == "-1"
    assert configs["segment.bytes"] != "1048576"
    shown = run("topic", "describe", "life", *at).stdout.decode()
    assert "3 partitions" in shown
    assert "retention.ms" in shown
    assert run("topic", "delete", "life", "--yes", *at).stdout == b"deleted life\n"
    assert "life" not in [row["name"] for row in json.loads(run("topic", "list", "--json", *at).stdout)]


def test_an_existing_topic_is_not_created_again(broker: BrokerProcess, run: Any) -> None:
    at = ("--bootstrap", broker.address)
    run("topic", "create", "twice", *at)
    assert b"twice" in run("topic", "create", "twice", *at, expect=1).stderr
    assert json.loads(run("topic", "create", "twice", "--if-not-exists", "--json", *at).stdout)["created"] is False


def test_invalid_topics_are_refused(broker: BrokerProcess, run: Any) -> None:
    at = ("--bootstrap", broker.address)
    assert b"..." in run("topic", "create", "...", *at, expect=1).stderr
    assert b"a/b" in run("topic", "create", "a/b", *at, expect=1).stderr
    assert b"replication" in run("topic", "create", "copies", "-r", "3", *at, expect=1).stderr
    assert b"unknown setting 'x.y'" in run("topic", "create", "set", "-c", "x.y=1", *at, expect=1).stderr
    assert b"--partitions" in run("topic", "create", "none", "-p", "0", *at, expect=2).stderr


def test_partitions_are_added(broker: BrokerProcess, run: Any) -> None:
    at = ("--bootstrap", broker.address)
    run("topic", "create", "grows", "-p", "2", *at)
    done = run("topic", "alter", "grows", "--partitions", "5", "-c", "retention.ms=-1", *at)
    assert done.stdout == b"altered grows: retention.ms\naltered grows: 5 partitions\n"
    assert b"later records of a key can go to another partition" in done.stderr
    described = json.loads(run("topic", "describe", "grows", "--json", *at).stdout)
    assert (described["partitions_count"], described["configs"]["retention.ms"]) == (5, "-1")
    refused = run("topic", "alter", "grows", "--partitions", "5", *at, expect=1).stderr
    assert b"topic 'grows' has 5 partitions; partitions can only be added" in refused
    assert b"nowhere" in run("topic", "alter", "nowhere", "--partitions", "5", *at, expect=1).stderr
    assert b"--partitions" in run("topic", "alter", "grows", "--partitions", "0", *at, expect=2).stderr


def test_unknown_topics_are_reported(broker: BrokerProcess, run: Any) -> None:
    at = ("--bootstrap", broker.address)
    for verb in ("describe", "delete"):
        assert b"nowhere" in run("topic", verb, "nowhere", *at, expect=1).stderr
    assert b"`raftlog topic list` shows the topics" in run("topic", "describe", "nowhere", *at, expect=1).stderr
    assert b"nowhere" in run("topic", "alter", "nowhere", "-c", "retention.ms=1", *at, expect=1).stderr
    assert b"nothing to change" in run("topic", "alter", "nowhere", *at, expect=2).stderr


def test_group_offsets_only_rise(broker: BrokerProcess, run: Any) -> None:
    at = ("--bootstrap", broker.address)
    run("topic", "create", "grouped", "-p", "2", *at)
    done = run("group", "offsets", "g", "--commit", "grouped/0=5", "--commit", "grouped/1=2", *at)
    assert done.stdout == b"grouped/0 5\ngrouped/1 2\n"
    assert run("group", "offsets", "g", "--commit", "grouped/0=4", *at).stdout == done.stdout
    rows = json.loads(run("group", "offsets", "g", "--json", *at).stdout)["offsets"]
    assert rows[0] == {"topic": "grouped", "partition": 0, "offset": 5, "metadata": "", "leader_epoch": None}
    groups = json.loads(run("group", "list", "--json", *at).stdout)
    assert "g" in [found["group"] for found in groups]


def test_invalid_commits_are_refused(broker: BrokerProcess, run: Any) -> None:
    at = ("--bootstrap", broker.address)
    assert b"TOPIC/PARTITION=OFFSET" in run("group", "offsets", "g", "--commit", "t/0", *at, expect=2).stderr
    assert b"TOPIC/PARTITION" in run("group", "offsets", "g", "--commit", "t=0", *at, expect=2).stderr
    assert b"nowhere" in run("group", "offsets", "g", "--commit", "nowhere/0=1", *at, expect=1).stderr


def test_an_unreachable_broker_is_reported(run: Any, unused_tcp_port: int) -> None:
    address = f"127.0.0.1:{unused_tcp_port}"
    for verb in (("topic", "list"), ("group", "list"), ("produce", "t"), ("consume", "t")):
        done = run(*verb, "--bootstrap", address, expect=1)
        assert done.stderr.decode().startswith(f"error: no broker answers ({address}: connection refused)")


def test_the_second_address_of_the_environment_is_used_if_the_first_is_down(
    broker: BrokerProcess, run: Any, unused_tcp_port: int
) -> None:
    env = {"RAFTLOG_BOOTSTRAP": f"127.0.0.1:{unused_tcp_port},{broker.address}"}
    assert run("topic", "create", "by-second", env=env).stdout == b"created by-second, 1 partition\n"


def test_a_flag_is_read_from_the_environment(broker: BrokerProcess, run: Any) -> None:
    env = {"RAFTLOG_BOOTSTRAP": broker.address, "RAFTLOG_TOPIC_CREATE_PARTITIONS": "4"}
    assert run("topic", "create", "by-environment", env=env).stdout == b"created by-environment, 4 partitions\n"


def test_a_group_is_described_reset_and_deleted(broker: BrokerProcess, run: Any) -> None:
    at = ("--bootstrap", broker.address)
    run("topic", "create", "read", "-p", "2", *at)
    run("produce", "read", "--partition", "0", *at, stdin=b"a\nb\nc\n")
    run("group", "offsets", "reader", "--commit", "read/0=1", *at)
    described = json.loads(run("group", "describe", "reader", "--json", *at).stdout)
    assert (described["state"], described["is_simple"], described["members"]) == ("EMPTY", True, [])
    assert [(row["current_offset"], row["log_end_offset"], row["lag"]) for row in described["partitions"]] == [
        (1, 3, 2)
    ]
    assert b"2 records behind in 1 partition" in run("group", "lag", "reader", *at).stdout
    assert b"nothing was changed" in run("group", "reset-offsets", "reader", "--to", "+1", "--dry-run", *at).stdout
    run("group", "reset-offsets", "reader", "--to", "latest", "--topic", "read", "--yes", *at)
    assert run("group", "offsets", "reader", *at).stdout == b"read/0 3\nread/1 0\n"
    run("group", "delete-offsets", "reader", "read", "--yes", *at)
    assert run("group", "offsets", "reader", *at).stdout == b""
    run("group", "offsets", "reader", "--commit", "read/0=1", *at)
    assert run("group", "delete", "reader", "--yes", *at).stdout == b"deleted reader\n"
    assert b"no group 'reader'" in run("group", "describe", "reader", *at, expect=1).stderr


def test_a_topic_is_trimmed(broker: BrokerProcess, run: Any) -> None:
    at = ("--bootstrap", broker.address)
    run("topic", "create", "cut", *at)
    run("produce", "cut", *at, stdin=b"a\nb\nc\n")
    assert run("topic", "trim", "cut", "--before", "2", "--all", "--yes", *at).stdout == (
        b"cut/0 begins at 2, 2 records fewer\n"
    )
    assert run("consume", "cut", "--no-follow", *at).stdout == b"c\n"


def test_the_error_for_an_existing_topic_names_the_flag_that_accepts_it(run: Any, broker: BrokerProcess) -> None:
    at = ("--bootstrap", broker.address)
    run("topic", "create", "taken", *at)
    refused = run("topic", "create", "taken", *at, expect=1).stderr.decode()
    assert refused == "error: topic 'taken' exists already; give --if-not-exists to accept the existing topic\n"
    assert "raftlog topic list" in run("topic", "describe", "missing", *at, expect=1).stderr.decode()
