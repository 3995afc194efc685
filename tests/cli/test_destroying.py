"""Verbs that delete data ask before, accept `--yes` in scripts, and refuse without a terminal."""

import json
import subprocess
from typing import Any, Final
from urllib.request import urlopen

import click
import pytest

from raftlog.cli.topic.change import describe_deleting_changes
from raftlog.testing import BrokerProcess
from tests.cli.conftest import COMMAND, assert_one_line, build_environment
from tests.cli.test_help import ALL

ASKS: Final = {
    ("topic", "delete"),
    ("topic", "alter"),
    ("topic", "trim"),
    ("group", "delete"),
    ("group", "delete-offsets"),
    ("group", "reset-offsets"),
    ("user", "delete"),
}
ONLY_WITH_FLAG: Final = {
    ("partition", "recover"): "--accept-loss",
    ("log", "recover"): "--accept-loss",
    ("cluster", "upgrade"): "--finish",
}
"""Commands that only report the possible loss without the flag; the flag is the consent."""
KEEPS_EVERYTHING: Final = {
    ("broker", "decommission"): "moves all replicas first, and can be called off until it is over",
    ("pipeline", "compact"): "what it deletes is in the new files",
    ("acl", "delete"): "entries can be created again; --dry-run lists them",
    ("quota", "delete"): "a quota can be set again",
    ("backup",): "--prune deletes only in the store, what the cluster has deleted before",
    ("restore",): "it creates topics and needs them to be absent",
}
DESTROYS_NOTHING: Final = {
    *(("bench",), ("consume",), ("demo",), ("dev",), ("doctor",), ("maelstrom",), ("produce",), ("serve",), ("trace",)),
    *(("broker", verb) for verb in ("decommission-status", "list", "recommission", "show")),
    *(("broker", "maintenance", verb) for verb in ("disable", "enable", "status")),
    *(("cluster", verb) for verb in ("balance", "health", "info", "log-level", "members", "rolling-restart")),
    *(("cluster", "config", verb) for verb in ("get", "list", "schema", "set", "unset")),
    *(("cluster", *words) for words in (("balancer", "status"), ("secret", "create"))),
    *(("generate", kind) for kind in ("dashboards", "prometheus-config", "prometheus-rules")),
    *(("group", verb) for verb in ("describe", "lag", "list", "offsets")),
    *(("log", verb) for verb in ("dump", "verify")),
    *(("partition", verb) for verb in ("cancel-move", "list", "move", "moves", "show", "transfer-leadership")),
    *(("pipeline", verb) for verb in ("archive", "info", "replay", "verify")),
    *(("topic", verb) for verb in ("create", "describe", "list")),
    *(("acl", verb) for verb in ("create", "list")),
    *(("quota", verb) for verb in ("list", "set")),
    *(("config", "check"), ("tls", "create")),
    *(("transaction", verb) for verb in ("abort", "describe", "list")),
    *(("user", verb) for verb in ("create", "list", "password")),
}
"""A new verb is named here once it is known to delete no committed record, offset or file of a user's."""
WORDS: Final = ("delete", "forget", "for good", "would lose", "would cost", "no way back")


def test_every_verb_is_classified_as_asking_or_harmless() -> None:
    classes = (ASKS, ONLY_WITH_FLAG.keys(), KEEPS_EVERYTHING.keys(), DESTROYS_NOTHING)
    assert sorted(path for each in classes for path in each) == sorted(ALL)


def test_every_verb_that_deletes_data_is_classified() -> None:
    destroying = {path for path, command in ALL.items() if any(word in help_text(command) for word in WORDS)}
    destroying |= {path for path, command in ALL.items() if "--yes" in flag_names(command)}
    assert destroying == ASKS | ONLY_WITH_FLAG.keys() | KEEPS_EVERYTHING.keys()
    for path in ASKS:
        assert "--yes" in flag_names(ALL[path]), path
    for path, flag in ONLY_WITH_FLAG.items():
        assert flag in flag_names(ALL[path]), path


def help_text(command: click.Command) -> str:
    """Return the help of the command and of its boolean flags."""
    flags = [each.help or "" for each in command.params if isinstance(each, click.Option) and each.is_flag]
    return " ".join([command.help or "", *flags]).lower()


def flag_names(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


@pytest.fixture(scope="module")
def at(broker: BrokerProcess) -> tuple[str, ...]:
    return ("--bootstrap", broker.address)


@pytest.fixture
def read_topic(run: Any, at: tuple[str, ...]) -> str:
    """Create a topic with a record and a consumer group that has read it."""
    run("topic", "create", "kept", "-c", "retention.ms=86400000", *at)
    run("produce", "kept", *at, stdin=b"a\n")
    run("group", "offsets", "reader", "--commit", "kept/0=1", *at)
    return "kept"


def test_nothing_is_deleted_without_a_terminal_or_after_a_no(run: Any, at: tuple[str, ...], read_topic: str) -> None:
    commands = {
        ("topic", "delete"): (read_topic,),
        ("topic", "alter"): (read_topic, "--config", "retention.ms=1"),
        ("topic", "trim"): (read_topic, "--before", "end", "--all"),
        ("group", "delete"): ("reader",),
        ("group", "delete-offsets"): ("reader", read_topic),
        ("group", "reset-offsets"): ("reader", "--to", "earliest"),
        ("user", "delete"): ("alice",),
    }
    assert commands.keys() == ASKS
    for path, arguments in commands.items():
        for stdin, code, why in (
            (b"", 2, b"standard input gave no answer: give --yes"),
            (b"n\n", 1, b"nothing was changed"),
        ):
            done = run(*path, *arguments, *at, stdin=stdin, expect=code)
            assert why in done.stderr, path
            assert b"?" in done.stderr, "it says what it would do"
    described = json.loads(run("topic", "describe", read_topic, "--json", *at).stdout)
    assert described["partitions"][0]["beginning_offset"] == 0
    assert described["configs"]["retention.ms"] == "86400000"
    assert run("group", "offsets", "reader", *at).stdout == b"kept/0 1\n"
    assert run("topic", "delete", read_topic, *at, stdin=b"y\n").stdout == b"deleted kept\n"
    run("topic", "create", read_topic, *at)
    assert run("topic", "delete", read_topic, "--yes", *at).stdout == b"deleted kept\n"


def test_a_closed_stdin_is_no_confirmation(at: tuple[str, ...], read_topic: str) -> None:
    """With a closed descriptor, as of a service or `<&-`, Python has no `sys.stdin`; an empty one differs."""
    for closed in ("0<&-", "0<&- 1>&-", "0<&- 1>&- 2>&-"):
        words = [*COMMAND, "topic", "delete", read_topic, *at]
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {closed}', "sh", *words], check=False, capture_output=True, env=build_environment()
        )
        assert done.returncode == 2, done.stderr.decode()
        if "2>" not in closed:
            assert_one_line(done.stderr)
            assert b"standard input gave no answer: give --yes" in done.stderr
    with urlopen(f"http://{at[1]}/topics/{read_topic}") as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({"retention.ms": "2000"}, []),
        ({"retention.ms": "-1"}, []),
        ({"retention.ms": "1000"}, []),
        ({"retention.ms": "999"}, ["retention.ms from 1000 to 999"]),
        ({"retention.ms": None}, ["retention.ms from 1000 to its default"]),
        ({"retention.bytes": "5"}, ["retention.bytes from -1 to 5"]),
        ({"cleanup.policy": "compact"}, ["cleanup.policy from delete to compact"]),
        ({"cleanup.policy": "delete", "segment.bytes": "1"}, []),
    ],
)
def test_changes_that_delete_records_need_confirmation(changes: dict[str, str | None], asked: list[str]) -> None:
    known = {"retention.ms": "1000", "retention.bytes": "-1", "cleanup.policy": "delete", "segment.bytes": "9"}
    assert describe_deleting_changes(known, changes) == asked
