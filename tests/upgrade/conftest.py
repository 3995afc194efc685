"""The release before this one, in an environment of its own, and clusters whose brokers run it."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from raftlog.testing import Cluster

OLD = "0.1.0"
WHEEL = Path(__file__).parent / f"raftlog-{OLD}-py3-none-any.whl"


@pytest.fixture(scope="session")
def old_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter whose raftlog is the old release; what that depends on comes from the environment of the tests."""
    directory = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    lines = sysconfig.get_path("purelib", vars={"base": str(directory), "platbase": str(directory)})
    quietly = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-compile"]
    subprocess.run([sys.executable, "-m", "pip", "install", *quietly, "--target", lines, str(WHEEL)], check=True)
    # A path of a .pth file is searched, but the .pth files in it are not read: the tree's own raftlog stays out.
    Path(lines, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = directory / "bin" / "python"
    said = subprocess.run(
        [python, "-P", "-c", "import raftlog; print(raftlog.__version__)"],
        check=True,
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert said.stdout.strip() == OLD, said
    return str(python)


@pytest.fixture
def old_cluster(old_python: str) -> Iterator[Callable[..., Cluster]]:
    """`old_cluster()` starts three brokers of the old release."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(Cluster(3, python=old_python, **options))


def version_of(cluster: Cluster, node: int) -> Any:
    """What a broker says of itself."""
    asked = cluster.nodes[node]
    return next(broker["version"] for broker in asked.get("/v1/brokers") if broker["node_id"] == node)
