"""docs/PIPELINE.md against the code: the options of each data source, the errors, the verbs and their flags."""

import inspect
import re

import click
import pytest

from raftlog.cli.entry import raftlog as command
from raftlog.pipeline import errors
from raftlog.pipeline.brokers.settings import BATCH_OPTIONS, STREAM_OPTIONS
from raftlog.pipeline.segments import source as segments
from raftlog.pipeline.sink import settings as sink
from tests.layouts import DOCS, items_after

DOCUMENT = (DOCS / "PIPELINE.md").read_text(encoding="utf-8")
SECTIONS = {
    "Reading through brokers: `raftlog`": {*BATCH_OPTIONS, *STREAM_OPTIONS},
    "Reading files: `raftlog-segments`": set(segments._OPTIONS)
    - {"startingTimestamp", "startingOffsetsByTimestamp", "endingTimestamp", "endingOffsetsByTimestamp"},
    "Writing: `raftlog`": set(sink.WRITING_OPTIONS),
}
"""Options by section; the forms by time of files share one row with the others."""


def section(title: str) -> str:
    return DOCUMENT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("title", SECTIONS)
def test_the_lists_have_exactly_the_options_of_the_code(title: str) -> None:
    heads = [head.partition(" (")[0] for head, _ in items_after("options", section(title))]
    assert {name for head in heads for name in re.findall(r"`(\w+)`", head)} == SECTIONS[title]


def test_every_error_is_explained() -> None:
    told = section("Errors")
    named = {name for name, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__}
    assert {name for name in named if f"`{name}`" not in told} == set()


def test_every_documented_verb_and_flag_exists() -> None:
    context = click.Context(command)
    pipeline = command.get_command(context, "pipeline")
    assert isinstance(pipeline, click.Group)
    rows = re.findall(r"^\| `raftlog pipeline (\w+)[^|]*\|(.*)\|$", section("The command"), re.MULTILINE)
    assert [verb for verb, _ in rows] == pipeline.list_commands(context)
    for verb, told in rows:
        found = pipeline.get_command(context, verb)
        assert found is not None
        flags = {flag for parameter in found.params for flag in parameter.opts}
        assert set(re.findall(r"--[\w-]+", told)) <= flags, verb
