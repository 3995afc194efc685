"""docs/MAELSTROM.md against the code: error codes, and options with their defaults."""

import re
from pathlib import Path

import click

from raftlog.api.maelstrom.errors import Code
from raftlog.api.maelstrom.settings import MaelstromSettings
from raftlog.cli.maelstrom import maelstrom

TEXT = (Path(__file__).parents[2] / "docs" / "MAELSTROM.md").read_text()


def test_every_code_is_described() -> None:
    rows = re.findall(r"^- (\d+) ([a-z-]+): ", TEXT, re.MULTILINE)
    assert {int(code): name for code, name in rows} == {int(code): code.name.lower().replace("_", "-") for code in Code}


def test_every_option_is_described_with_its_default() -> None:
    rows = dict(re.findall(r"^- `(--[a-z-]+)` \(([^)]*)\):", TEXT, re.MULTILINE))
    options = [each for each in maelstrom.params if isinstance(each, click.Option)]
    assert set(rows) == {option.opts[0] for option in options}
    defaults = MaelstromSettings(data_dir="")
    for option in options:
        if option.name not in ("data_dir", "log_level"):
            assert option.default == getattr(defaults, option.name or ""), option.name
            assert rows[option.opts[0]] == str(option.default)
