"""What holds for the imports of the package as a whole; layers are contracts in pyproject.toml."""

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """What each module imports, also for type checkers only."""
    graph = grimp.build_graph("raftlog", cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_no_modules_import_each_other_in_a_circle(imports: dict[str, set[str]]) -> None:
    assert "raftlog.runtime.process.driver" in imports["raftlog.partitions.node.node"]
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
