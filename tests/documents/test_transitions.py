"""State diagrams of docs/ARCHITECTURE.md: each function named by a row is defined in its file."""

import ast
import re

from tests.documents.pages import ROOT

PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| [^|]+ \| `([\w/.]+\.py)`: `(\w+)` \|$", PAGE, re.MULTILINE)


def test_every_function_of_a_transition_is_defined() -> None:
    assert len(ROWS) > 25
    for path, function in ROWS:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert function in names, f"{path} defines no {function}: correct the diagram and its table"


def test_every_row_of_the_transition_tables_is_parsed() -> None:
    tables = PAGE.split("<!-- transitions -->\n")[1:]
    rows = [row for table in tables for row in table.split("\n\n")[0].splitlines()[2:]]
    assert len(rows) == len(ROWS)
