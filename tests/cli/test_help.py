"""The command line itself: help, version, completion, wrong usage."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest

from raftlog import __version__
from raftlog.cli.entry import VERBS, raftlog
from tests.layouts import DOCS


def list_verbs(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield all verbs below a command, each with its path."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command, info_name="raftlog")
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from list_verbs(found, (*path, name))


ALL = dict(list_verbs(raftlog))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_flag_shows_its_variable_and_default(path: tuple[str, ...]) -> None:
    command = ALL[path]
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name != "help" and not parameter.hidden:
            assert parameter.show_envvar, f"{path} {parameter.name} hides its variable"
            assert parameter.show_default, f"{path} {parameter.name} hides its default"
            assert parameter.help, f"{path} {parameter.name} is not explained"


def test_help_names_variables_and_defaults(run: Any) -> None:
    text = " ".join(run("serve", "--help").stdout.decode().split())
    assert "env var: RAFTLOG_DATA_DIR; default: ./raftlog-data" in text
    text = " ".join(run("produce", "--help").stdout.decode().split())
    assert "env var: RAFTLOG_PRODUCE_BATCH_BYTES; default: 524288" in text
    assert "env var: RAFTLOG_BOOTSTRAP; default: 127.0.0.1:8082" in text


def test_help_lists_the_verbs_without_importing_them() -> None:
    code = (
        "import sys\nfrom raftlog.cli.entry import raftlog\n"
        "raftlog.main(['--help'], prog_name='raftlog', standalone_mode=False)\n"
        "print([name for name in ('aiohttp', 'rich', 'uvloop') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, check=True)
    *text, loaded = done.stdout.decode().splitlines()
    assert loaded == "[]"
    assert all(any(line.split()[:1] == [name] for line in text) for name in VERBS)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(("tpoic",), "topic"), (("cluster", "helth"), "health"), (("broker", "lst"), "list")],
)
def test_the_error_for_a_mistyped_verb_names_the_nearest(run: Any, typed: tuple[str, ...], meant: str) -> None:
    done = run(*typed, expect=2)
    assert f"No such command {typed[-1]!r}. Did you mean {meant!r}?" in done.stderr.decode()
    assert b"Did you mean" not in run("xyzzy", expect=2).stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_as_documented(run: Any, shell: str) -> None:
    document = (DOCS / "CLI.md").read_text(encoding="utf-8")
    assert f"_RAFTLOG_COMPLETE={shell}_source raftlog" in document
    assert b"_RAFTLOG_COMPLETE" in run(env={"_RAFTLOG_COMPLETE": f"{shell}_source"}).stdout


def test_completion_offers_the_verbs(run: Any) -> None:
    env = {"_RAFTLOG_COMPLETE": "bash_complete", "COMP_WORDS": "raftlog topic des", "COMP_CWORD": "2"}
    assert run(env=env).stdout.split() == [b"plain,describe"]


def test_every_flag_of_a_broker_is_documented() -> None:
    document = (DOCS / "SETTINGS.md").read_text(encoding="utf-8")
    shown = [each for each in ALL["serve",].params if isinstance(each, click.Option) and not each.hidden]
    flags = {name for parameter in shown for name in parameter.opts if name.startswith("--")}
    assert {flag for flag in flags if f"`{flag}`" not in document} == set()


def test_the_version_is_printed(run: Any) -> None:
    assert __version__ in run("--version").stdout.decode()


@pytest.mark.parametrize("args", [(), ("broker",), ("cluster", "config")])
def test_a_group_without_a_verb_lists_its_verbs(run: Any, args: tuple[str, ...]) -> None:
    told = run(*args, expect=2).stderr.decode()
    names = {path[len(args)] for path in ALL if path[: len(args)] == args}
    called = " ".join(("raftlog", *args))
    before, after = told.removesuffix(f" (see {called} --help)\n").split(": ", 1)[1].split(": ")
    assert (before, set(after.split(", "))) == (f"{called} needs a verb", names)


@pytest.mark.parametrize("args", [("nonsense",), ("topic", "nonsense"), ("topic", "create"), ("produce",)])
def test_wrong_usage_prints_one_line(run: Any, args: tuple[str, ...]) -> None:
    done = run(*args, expect=2)
    assert done.stderr.decode().count("\n") == 1
    assert "--help" in done.stderr.decode()
