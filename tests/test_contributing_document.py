"""docs/CONTRIBUTING.md compared with the tree: each named file exists, and each section names some."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENT = (ROOT / "docs" / "CONTRIBUTING.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL))
FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w.-]+\.(?:py|md|toml|json))`")


def test_the_document_covers_every_kind_of_addition() -> None:
    wanted = {
        "A topic setting",
        "A codec",
        "A control batch",
        "A controller command",
        "An RPC",
        "A listener",
        "A metric",
        "A kind of fault",
        "A mutant",
    }
    assert wanted <= SECTIONS.keys()


@pytest.mark.parametrize("section", SECTIONS)
def test_every_file_named_in_the_document_exists(section: str) -> None:
    text = SECTIONS[section]
    named = FILE.findall(text)
    assert named, section
    folders = {(ROOT / name).parent for name in named if "/" in name}
    missing = [
        name for name in named if not (ROOT / name).exists() and not any((folder / name).exists() for folder in folders)
    ]
    assert not missing
    assert "Traps:" in text, f"{section}: what goes wrong most easily?"
