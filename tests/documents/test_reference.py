"""Reference pages compared with the code: errors, settings, metrics, events, messages, and commands of all pages."""

import logging
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import raftlog
from raftlog.api import codes
from raftlog.cli.entry import raftlog as command
from raftlog.cli.serve.verb import serve
from raftlog.events import EVENTS
from raftlog.values.error_codes import STATUS_AND_CODE
from tests.documents.pages import ROOT
from tests.layouts import DOCS, items_after

ERRORS = (DOCS / "ERRORS.md").read_text(encoding="utf-8")
EVENTS_PAGE = (DOCS / "EVENTS.md").read_text(encoding="utf-8")
SETTINGS = (DOCS / "SETTINGS.md").read_text(encoding="utf-8")
USER_PAGES = [ROOT / "README.md", *(path for path in sorted(DOCS.rglob("*.md")) if path.parent.name != "adr")]
ROOMS = ("raftlog", "partitions", "api")
NOT_COMMANDS = ("raftlog is ready", "raftlog rpc handshake")
"""A ready line, and the label of a MAC."""


def list_code_spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def flag_names(verb: click.Command) -> dict[str, click.Option]:
    return {
        name: parameter
        for parameter in verb.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def iterate_error_codes() -> Iterator[tuple[tuple[int, int], set[str]]]:
    """Yield status and error code of each item, with its outcomes; without a note it is `failed`."""
    for head, _ in items_after("error codes", ERRORS):
        pair, _, note = head.partition(" (")
        status, code = map(int, pair.split(" / "))
        yield (status, code), set(list_code_spans(note)) or {"failed"}


def test_every_error_code_has_an_item() -> None:
    named = {value for value in vars(codes).values() if isinstance(value, tuple)}
    wanted = {*named, *STATUS_AND_CODE.values()}
    rows = [pair for pair, _ in iterate_error_codes()]
    assert len(rows) == len(set(rows))
    assert set(rows) == wanted


def test_documented_outcomes_match_the_code() -> None:
    for pair, described in iterate_error_codes():
        kinds = [kind for kind in STATUS_AND_CODE if STATUS_AND_CODE[kind] == pair]
        outcomes = {kind.outcome for kind in kinds} or {"failed"}
        if pair == codes.INTERNAL:
            outcomes.add("unknown")  # unexpected errors may have had an effect
        assert described == outcomes, pair


def test_every_setting_is_documented_with_its_default() -> None:
    described: dict[str, str] = {}
    for head, _ in items_after("settings", SETTINGS):
        names, defaults = map(list_code_spans, head.partition(" (")[::2])
        for number, name in enumerate(names):
            described[name] = defaults[number] if number < len(defaults) else ""
    flags = {name: flag for name, flag in flag_names(serve).items() if name.startswith("--") and name != "--help"}
    assert set(described) == set(flags)
    for name, flag in flags.items():
        if flag.default not in (None, "", False) and isinstance(flag.default, str | int | float):
            assert described[name] == str(flag.default), name


def test_every_event_is_documented() -> None:
    described = {
        list_code_spans(head)[0]: (re.findall(r"\((\w+)", head)[0], sorted(list_code_spans(head)[1:]), meaning)
        for head, meaning in items_after("events", EVENTS_PAGE)
    }
    assert described == {
        name: (logging.getLevelName(kind.level).lower(), sorted(kind.fields), kind.meaning)
        for name, kind in EVENTS.items()
    }


def list_commands(text: str) -> Iterator[list[str]]:
    """Yield each command that begins with `raftlog` in a code span or a typed line of a block."""
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in re.findall(r"(?:^\$ |^|/bin/|\| )(raftlog .*)", block, re.MULTILINE)]
    for line in (*lines, *re.findall(r"`(raftlog [^`]+)`", prose)):
        words = re.split(r" (?:\||>|&&|\|\||#) ?", line)[0]
        if not words.startswith(NOT_COMMANDS):
            yield shlex.split(words.replace("\n", " "))[1:]


@pytest.mark.parametrize("page", USER_PAGES, ids=lambda page: page.stem)
def test_every_command_exists_with_its_flags(page: Path) -> None:
    for words in list_commands(page.read_text(encoding="utf-8")):
        verb: click.Command = command
        context = click.Context(command)
        rest = words
        while isinstance(verb, click.Group) and rest and not rest[0].startswith(("-", "…")):
            found = verb.get_command(context, rest[0])
            assert found is not None, words
            verb, rest = found, rest[1:]
        unknown = {word for word in rest if re.match(r"--?[a-z]", word)} - set(flag_names(verb))
        assert not unknown - {"-h", "--help"}, words


def test_a_minimum_of_commands_is_found() -> None:
    assert sum(len(list(list_commands(page.read_text(encoding="utf-8")))) for page in USER_PAGES) >= 150


def test_every_documented_message_exists_in_the_code() -> None:
    top = Path(raftlog.__file__).parent.parent
    source = "\n".join(
        file.read_text(encoding="utf-8") for room in ROOMS for file in sorted((top / room).rglob("*.py"))
    )
    fragments = [
        fragment
        for part in re.split(r"<!-- messages -->", ERRORS)[1:]
        for head, _ in items_after("messages", f"<!-- messages -->{part}")
        for fragment in list_code_spans(head)
    ]
    assert len(fragments) > 20
    assert [fragment for fragment in fragments if fragment not in source] == []
