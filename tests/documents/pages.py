"""Markdown pages as headings, links and fenced blocks with the directives before them."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
_FENCE: Final = re.compile(r"^(`{3,})(\w*)\s*$")
_DIRECTIVE: Final = re.compile(r"^<!-- (not run|terminal|stop|kill|file|cluster): (.+) -->$")


class Block(NamedTuple):
    """Fenced block, or a directive that stands alone (then `language` and `text` are empty).

    `directives` stand on the lines right before the fence: `not run: REASON`, `terminal: NAME` (runs until stopped),
    `stop: NAME` (Ctrl-C), `kill: NAME` (Ctrl-\\), `file: NAME` (the text is saved under that name), `cluster: own` or
    `cluster: shared`.
    """

    line: int
    language: str
    text: str
    directives: dict[str, str]


def list_pages() -> list[Path]:
    """Return all Markdown pages under version control, and new ones."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return sorted(ROOT / shown for shown in set(listed.stdout.split()) if (ROOT / shown).exists())


def parse_blocks(text: str) -> Iterator[Block]:
    """Yield fenced blocks and lone directives in the order of the page."""
    pending: dict[str, str] = {}
    lines = enumerate(text.splitlines(), 1)
    for number, line in lines:
        if found := _DIRECTIVE.match(line):
            pending[found[1]] = found[2]
        elif fence := _FENCE.match(line):
            content = []
            for _, inner in lines:
                if inner.rstrip() == fence[1]:
                    break
                content.append(inner + "\n")
            yield Block(number, fence[2], "".join(content), pending)
            pending = {}
        elif pending:
            yield Block(number, "", "", pending)
            pending = {}
    if pending:
        yield Block(0, "", "", pending)


def remove_blocks(text: str) -> str:
    """Return the text without fenced blocks and code spans."""
    text = re.sub(r"^(`{3,}).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def list_anchors(text: str) -> set[str]:
    """Return the anchors of all headings, made like GitHub's."""
    text = re.sub(r"^(`{3,}).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def list_links(text: str) -> Iterator[str]:
    """Yield the targets of links and pictures, in Markdown and HTML, except links to other sites."""
    plain = remove_blocks(text)
    inline = re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", plain)
    named = re.findall(r"^\[[^\]]+\]:\s+(\S+)", plain, re.MULTILINE)
    html = re.findall(r"(?:href|src|srcset)=\"([^\"]+)\"", plain)
    for target in (*inline, *named, *html):
        if not re.match(r"[a-z][a-z+.-]*:", target):
            yield target
