"""State diagrams of docs/ARCHITECTURE.md: each function named by an item is defined in its file."""

import ast
import re

from tests.documents.pages import ROOT

PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
ITEMS = re.findall(r"^- [^`]+: `([\w/.]+\.py)`: `(\w+)`$", PAGE, re.MULTILINE)


def test_every_function_of_a_transition_is_defined() -> None:
    assert len(ITEMS) > 25
    for path, function in ITEMS:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert function in names, f"{path} defines no {function}: correct the diagram and its list"


def test_every_item_of_the_transition_lists_is_parsed() -> None:
    items = [item for part in PAGE.split("<!-- transitions -->\n")[1:] for item in part.split("\n\n")[0].splitlines()]
    assert len(items) == len(ITEMS)
