"""docs/OPERATIONS.md against the code: the errors, settings, metrics, commands and messages that it names."""

import logging
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

import raftlog
from raftlog.api import codes
from raftlog.api.http.metrics.measured import HttpMeasured
from raftlog.api.http.metrics.metrics import Metrics
from raftlog.cli.entry import raftlog as command
from raftlog.cli.serve.verb import serve
from raftlog.events import EVENTS
from raftlog.partitions.broker import Broker
from raftlog.partitions.gossip.settings import GossipSettings
from raftlog.partitions.settings import BrokerSettings
from raftlog.values.error_codes import STATUS_AND_CODE
from tests.cluster_secret import SECRET
from tests.layouts import DOCS, table_after

DOCUMENT = (DOCS / "OPERATIONS.md").read_text(encoding="utf-8")
ROOMS = ("raftlog", "partitions", "api")
LOOPBACK = ("127.0.0.1", 0)


def code_spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def flags_of(verb: click.Command) -> dict[str, click.Option]:
    return {
        name: parameter
        for parameter in verb.params
        if isinstance(parameter, click.Option)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def test_every_error_code_has_a_row() -> None:
    named = {value for value in vars(codes).values() if isinstance(value, tuple)}
    wanted = {*named, *STATUS_AND_CODE.values()}
    rows = [tuple(map(int, cells[:2])) for cells in table_after("error codes", DOCUMENT)]
    assert len(rows) == len(set(rows))
    assert set(rows) == wanted


def test_only_unknown_outcomes_are_called_unknown() -> None:
    for status, code, outcome, *_ in table_after("error codes", DOCUMENT):
        pair = (int(status), int(code))
        kinds = [kind for kind in STATUS_AND_CODE if STATUS_AND_CODE[kind] == pair]
        outcomes = {kind.outcome for kind in kinds} or {"failed"}
        if pair == codes.INTERNAL:
            outcomes.add("unknown")  # what nobody expected may have happened
        assert set(code_spans(outcome)) == outcomes, pair


def test_every_setting_is_there_with_its_default() -> None:
    described: dict[str, str] = {}
    for names_cell, defaults_cell, _ in table_after("settings", DOCUMENT):
        names, defaults = code_spans(names_cell), code_spans(defaults_cell)
        for number, name in enumerate(names):
            described[name] = defaults[number] if number < len(defaults) else ""
    flags = {name: flag for name, flag in flags_of(serve).items() if name.startswith("--") and name != "--help"}
    assert set(described) == set(flags)
    for name, flag in flags.items():
        if flag.default not in (None, "", False) and isinstance(flag.default, str | int | float):
            assert described[name] == str(flag.default), name


async def test_every_metric_is_there(tmp_path) -> None:
    settings = BrokerSettings(data_dir=str(tmp_path), rpc=LOOPBACK, secret=SECRET, gossip=GossipSettings())
    broker = await Broker.open(settings)
    try:
        await broker.start("127.0.0.1:1")
        text = await Metrics(broker, HttpMeasured(), 1).render()
    finally:
        await broker.close()
    shown = set(re.findall(rb"^# TYPE (\S+)", text[0], re.MULTILINE))
    described = [name for cells in table_after("metrics", DOCUMENT) for name in code_spans(cells[0])]
    assert len(described) == len(set(described))
    assert {name.encode() for name in described} == shown
    assert set(re.findall(r"\braftlog_[a-z_]+", DOCUMENT)) <= set(described)


def test_every_event_is_there() -> None:
    described = {
        code_spans(name)[0]: (level, sorted(code_spans(fields)), meaning)
        for name, level, fields, meaning in table_after("events", DOCUMENT)
    }
    assert described == {
        name: (logging.getLevelName(kind.level).lower(), sorted(kind.fields), kind.meaning)
        for name, kind in EVENTS.items()
    }


def commands() -> Iterator[list[str]]:
    """Yield all commands that begin with `raftlog` in a code span or a code block."""
    blocks = re.findall(r"```\w*\n(.*?)```", DOCUMENT, re.DOTALL)
    prose = re.sub(r"```.*?```", "", DOCUMENT, flags=re.DOTALL)
    lines = [line for block in blocks for line in re.findall(r"(?:^\$ |/bin/)(raftlog .*)", block, re.MULTILINE)]
    for text in (*lines, *re.findall(r"`(raftlog [^`]+)`", prose)):
        yield shlex.split(text)[1:]


def test_every_command_exists_with_its_flags() -> None:
    seen = 0
    for words in commands():
        verb: click.Command = command
        context = click.Context(command)
        rest = words
        while isinstance(verb, click.Group):
            found = verb.get_command(context, rest[0])
            assert found is not None, words
            verb, rest = found, rest[1:]
        unknown = {word for word in rest if word.startswith("-")} - set(flags_of(verb))
        assert not unknown, words
        seen += 1
    assert seen >= 15


def test_every_message_is_one_that_the_code_has() -> None:
    top = Path(raftlog.__file__).parent.parent
    source = "\n".join(
        file.read_text(encoding="utf-8") for room in ROOMS for file in sorted((top / room).rglob("*.py"))
    )
    fragments = [
        code_spans(cells[0])[0]
        for table in re.split(r"<!-- messages -->", DOCUMENT)[1:]
        for cells in table_after("messages", f"<!-- messages -->{table}")
    ]
    assert len(fragments) > 20
    assert [fragment for fragment in fragments if fragment not in source] == []


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", DOCUMENT):
        path, _, anchor = target.partition("#")
        file = (DOCS / path).resolve() if path else DOCS / "OPERATIONS.md"
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, target


def slug(heading: str) -> str:
    """As GitHub makes anchors."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
