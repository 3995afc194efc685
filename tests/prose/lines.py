"""First lines of docstrings in Python sources, and headings in Markdown pages, each with its place."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class ProseLine(NamedTuple):
    """A line to check; `path` is relative to the project, `number` counts from 1."""

    path: str
    number: int
    text: str


def docstring_lines(path: Path, shown: str) -> Iterator[ProseLine]:
    """Yield the first line of each docstring of modules, classes, functions and variables."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not isinstance(node, _DOCUMENTED):
            continue
        for statement in node.body:
            if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
                continue
            text = statement.value.value
            if isinstance(text, str) and text.strip():
                yield ProseLine(shown, statement.lineno, text.strip().splitlines()[0])


def headings(path: Path, shown: str) -> Iterator[ProseLine]:
    """Yield the headings of a page, without those inside of code blocks."""
    in_code = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and (found := re.match(r"#{1,6}\s+(.*)", line)):
            yield ProseLine(shown, number, found[1])
