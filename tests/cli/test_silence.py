"""Verbs that wait for a silent broker print its address."""

import asyncio
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest
from click.testing import CliRunner

from raftlog.cli.entry import raftlog
from raftlog.client import slow_answers
from raftlog.client.slow_answers import SlowAnswers
from raftlog.client.transport import HttpTransport
from tests.cli.test_destroying import flag_names
from tests.cli.test_help import ALL

WARNED: Final = 99
"""Exit code of a command that was ended by its first warning."""
ARGUMENTS: Final[dict[str, str]] = {
    "acl create": "--allow alice --topic t --operation read",
    "acl delete": "--topic t",
    "acl list": "",
    "backup": "store",
    "bench": "",
    "broker decommission": "3 --wait",
    "broker decommission-status": "3",
    "broker list": "",
    "broker maintenance disable": "3",
    "broker maintenance enable": "3 --wait",
    "broker maintenance status": "3",
    "broker recommission": "3",
    "broker show": "3",
    "cluster balance": "",
    "cluster balancer status": "",
    "cluster config get": "partition.autobalancing.mode",
    "cluster config list": "",
    "cluster config schema": "",
    "cluster config set": "partition.autobalancing.mode=off",
    "cluster config unset": "partition.autobalancing.mode",
    "cluster health": "",
    "cluster info": "",
    "cluster log-level": "raftlog debug",
    "cluster members": "",
    "cluster rolling-restart": "--command true",
    "cluster upgrade": "",
    "consume": "t",
    "generate prometheus-config": "",
    "group delete": "g --yes",
    "group delete-offsets": "g t --yes",
    "group describe": "g",
    "group lag": "g",
    "group list": "",
    "group offsets": "g",
    "group reset-offsets": "g --to earliest --yes",
    "partition cancel-move": "t/0",
    "partition list": "",
    "partition move": "t/0 --to 1",
    "partition moves": "",
    "partition recover": "t/0",
    "partition show": "t/0",
    "partition transfer-leadership": "t/0",
    "produce": "t",
    "quota delete": "producer_byte_rate --user alice",
    "quota list": "",
    "quota set": "producer_byte_rate=1000 --user alice",
    "topic alter": "t --config retention.ms=1 --yes",
    "topic create": "t",
    "topic delete": "t --yes",
    "topic describe": "t",
    "topic list": "",
    "topic trim": "t --before end --all --yes",
    "trace": "t/0",
    "transaction abort": "pay",
    "transaction describe": "pay",
    "transaction list": "",
    "user create": "alice --password-stdin",
    "user delete": "alice --yes",
    "user list": "",
    "user password": "alice --password-stdin",
}
ASK_LATER: Final = {"pipeline archive", "pipeline replay", "restore"}
"""The same client asks the brokers in workers of Spark, or once a backup has been read."""


def test_every_verb_that_sends_to_brokers_is_tested() -> None:
    asking = {" ".join(path) for path, command in ALL.items() if "--bootstrap" in flag_names(command)}
    assert asking == ARGUMENTS.keys() | ASK_LATER


@pytest.mark.parametrize("verb", [*ARGUMENTS, "consume --group g"])
def test_a_broker_that_does_not_answer_is_named(
    verb: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    warn = SlowAnswers._warn

    def warn_and_end(*args: Any) -> NoReturn:
        warn(*args)
        raise SystemExit(WARNED)

    async def wait(*args: object) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError("it is never set")

    monkeypatch.setattr(HttpTransport, "_send", wait)
    monkeypatch.setattr(SlowAnswers, "_warn", warn_and_end)
    monkeypatch.setattr(slow_answers, "WARN_AFTER_S", 0.01)
    words = [*verb.split(), *ARGUMENTS.get(verb, "t").split(), "--bootstrap", "127.0.0.1:1"]
    done = CliRunner().invoke(raftlog, words, input="a\n")
    assert done.exit_code == WARNED, done.output
    assert "127.0.0.1:1: no answer to " in caplog.text
