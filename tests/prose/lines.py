"""First lines of docstrings in Python sources, and headings in Markdown pages, each with its place."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PROPERTIES = ("property", "cached_property", ".setter")
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class ProseLine(NamedTuple):
    """A line to check; `path` is relative to the project, `number` counts from 1."""

    path: str
    number: int
    text: str
    is_function: bool = False
    """Whether it describes a function; tests, properties and headings are noun phrases or sentences."""


def docstring_lines(path: Path, shown: str) -> Iterator[ProseLine]:
    """Yield the first line of each docstring of modules, classes, functions and variables."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not isinstance(node, _DOCUMENTED):
            continue
        for place, statement in enumerate(node.body):
            if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
                continue
            text = statement.value.value
            if isinstance(text, str) and text.strip():
                first = text.strip().splitlines()[0]
                yield ProseLine(shown, statement.lineno, first, place == 0 and _is_function(node))


def _is_function(node: ast.AST) -> bool:
    """Return whether the node is a function with a result or an effect to describe."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("test_"):
        return False
    return not any(ast.unparse(decorator).endswith(_PROPERTIES) for decorator in node.decorator_list)


def headings(path: Path, shown: str) -> Iterator[ProseLine]:
    """Yield the headings of a page, without those inside of code blocks."""
    in_code = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and (found := re.match(r"#{1,6}\s+(.*)", line)):
            yield ProseLine(shown, number, found[1])
