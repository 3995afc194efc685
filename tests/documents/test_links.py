"""Links of all Markdown pages lead to a file and a heading, the index lists every page, and pages are short."""

from pathlib import Path

import pytest

from tests.documents.pages import ROOT, list_anchors, list_links, list_pages

PAGES = list_pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(path: Path) -> None:
    for target in list_links(path.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.exists(), f"points to {target}"
        assert file.is_relative_to(ROOT), f"points outside of the project: {target}"
        if anchor:
            assert anchor in list_anchors(file.read_text(encoding="utf-8")), f"points to {target}"


def test_the_index_has_every_page_of_docs() -> None:
    index = ROOT / "docs" / "README.md"
    named = {
        (index.parent / target.partition("#")[0]).resolve() for target in list_links(index.read_text(encoding="utf-8"))
    }
    wanted = {path for path in PAGES if path.is_relative_to(index.parent) and path != index}
    assert {str(path.relative_to(ROOT)) for path in wanted - named} == set()


def test_links_and_anchors_are_parsed() -> None:
    text = '[a](b.md#c) ![d](e.svg "f") [g]\n\n[g]: h.md\n\n<img src="i.svg">\n`[j](k)`\n[l](https://m.n)\n'
    assert list(list_links(text)) == ["b.md#c", "e.svg", "h.md", "i.svg"]
    assert list_anchors("# One: `two`!\n## A [b](c)\n## A b\n```\n# no\n```\n") == {"one-two", "a-b", "a-b-1"}


def count_words(paths: list[Path]) -> int:
    """Return the number of words like `wc -w`."""
    return sum(len(path.read_text(encoding="utf-8").split()) for path in paths)


def test_the_readme_is_short() -> None:
    assert count_words([ROOT / "README.md"]) <= 1_200


def test_the_documents_are_short() -> None:
    docs = [path for path in PAGES if path.is_relative_to(ROOT / "docs")]
    assert len(docs) > 60
    assert count_words(docs) <= 58_000
