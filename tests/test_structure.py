"""Rules for imports, names and sizes of modules; layers are contracts in pyproject.toml."""

import ast
import re
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """Return the imports of each module, also those for type checkers only."""
    graph = grimp.build_graph("raftlog", cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_no_modules_import_each_other_in_a_circle(imports: dict[str, set[str]]) -> None:
    assert "raftlog.runtime.process.driver" in imports["raftlog.partitions.node.node"]
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


NAMES_USED_TWICE_MAX = 12
"""The list in docs/ARCHITECTURE.md gives the reason of each."""


def test_class_names_used_twice_have_a_written_reason() -> None:
    root = Path(__file__).parents[1]
    rooms = [root / room for room in ("api", "membership", "partitions", "pipeline", "raftlog")]
    modules: dict[str, set[Path]] = {}
    for path in {path.resolve() for room in rooms for path in room.rglob("*.py")}:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                modules.setdefault(node.name, set()).add(path)
    twice = {name for name, paths in modules.items() if len(paths) > 1}
    text = (root / "docs" / "ARCHITECTURE.md").read_text()
    section = text.partition("## Names used twice")[2].partition("\n## ")[0]
    with_reason = {name for line in section.splitlines() for name in re.findall(r"`(\w+)`", line.partition(" | ")[0])}
    assert twice - with_reason == set(), "give these another name, or a reason in docs/ARCHITECTURE.md"
    assert with_reason - twice == set(), "these are used once by now: remove them from docs/ARCHITECTURE.md"
    assert len(twice) <= NAMES_USED_TWICE_MAX


ONE_IDEA = {"raftlog/raft", "raftlog/storage", "membership"}
"""Folders of one idea have up to 35 modules."""


def test_no_folder_is_too_full() -> None:
    root = Path(__file__).parents[1]
    modules = Counter(
        str(path.parent.relative_to(root))
        for room in ("api", "jepsen", "membership", "partitions", "pipeline", "raftlog")
        for path in (root / room).rglob("*.py")
        if path.resolve() == path
    )
    full = {folder: count for folder, count in modules.items() if count > (35 if folder in ONE_IDEA else 25)}
    assert not full, "give these rooms"


def test_no_module_is_too_long() -> None:
    root = Path(__file__).parents[1]
    long = {}
    for room in ("api", "jepsen", "membership", "partitions", "pipeline", "raftlog"):
        for path in (root / room).rglob("*.py"):
            count = path.read_text().count("\n")
            if count > 450:
                long[str(path.resolve().relative_to(root))] = count
    assert not long, "split these along an idea"


def test_chains_of_imports_are_short(imports: dict[str, set[str]]) -> None:
    depth: dict[str, int] = {}
    for module in TopologicalSorter(imports).static_order():
        depth[module] = 1 + max((depth[imported] for imported in imports[module]), default=0)
    assert max(depth.values()) <= 57, "import a module of a room where its `__init__` imports more than is needed"


def test_listeners_reach_a_broker_only_through_its_facade() -> None:
    root = Path(__file__).parents[1]
    inside = {"parts", "node", "metadata"}
    """Public for tests and the simulation."""
    found: set[str] = set()
    for path in {path.resolve() for room in ("api/http", "raftlog/cli/serve") for path in (root / room).rglob("*.py")}:
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Attribute) and _is_broker(node.value)):
                continue
            if node.attr in inside or node.attr.startswith("_"):
                found.add(f"{path.relative_to(root)}:{node.lineno} .{node.attr}")
    assert found == set(), "declare what adapters need on `Broker`"


def _is_broker(value: ast.expr) -> bool:
    name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
    return name in ("broker", "_broker")


def test_the_diagram_has_every_folder() -> None:
    root = Path(__file__).parents[1]
    rooms = (root / "docs" / "ARCHITECTURE.md").read_text().partition("## Packages")[2]
    drawing = rooms.partition("```")[2].partition("```")[0]
    folders = {
        path.parent.resolve().relative_to(root)
        for room in ("api", "membership", "partitions", "pipeline", "raftlog")
        for path in (root / room).rglob("__init__.py")
    }
    missing = [str(folder) for folder in folders if not re.search(rf"(?<![\w]){folder.name}/", drawing)]
    assert not missing, "draw them in docs/ARCHITECTURE.md"
