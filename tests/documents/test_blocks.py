"""Command blocks of the README, the tutorials and the how-to guides, run as printed."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from raftlog.testing.ports import HOST, reserve_port
from tests.documents.forked_command import ForkedCommand
from tests.documents.pages import ROOT, Block, parse_blocks
from tests.documents.terminal import Terminal, is_shown, split_commands
from tests.forked.client import ForkServer

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "how-to").glob("*.md"))
SHOWN_BASE_PORT = 8072
NODES = 3
RUN_ELSEWHERE = {"spark.md": "tests/pipeline/spark/test_walkthrough.py"}
"""Pages whose blocks another test runs."""
LONG = ("add-or-remove-a-broker", "replace-a-disk", "restart-and-upgrade", "test-your-program")
"""Pages whose blocks start and stop brokers for half a minute."""


class PageSetup(NamedTuple):
    """Replacements for the addresses of a page, and the environment of its terminals."""

    addresses: dict[str, str]
    environment: dict[str, str]


def hold_base_port(stack: ExitStack) -> int:
    """Return a base port for `raftlog dev` whose ports for HTTP, Kafka and RPC stay reserved."""
    while True:
        with ExitStack() as held:
            base = held.enter_context(reserve_port()).getsockname()[1]
            try:
                for node in range(1, NODES + 1):
                    for port in (base + 10 * node, base + 10 * node + 1, base + 10 * node + 2):
                        kept = held.enter_context(socket.socket())
                        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                        kept.bind((HOST, port))
            except (OSError, OverflowError):
                continue
            stack.push(held.pop_all())
            return int(base)


def make_setup(stack: ExitStack) -> PageSetup:
    base = hold_base_port(stack)
    shown = [SHOWN_BASE_PORT + 10 * node for node in range(1, NODES + 1)]
    addresses = {
        f"{HOST}:{port + more}": f"{HOST}:{base + port + more - SHOWN_BASE_PORT}"
        for port in shown
        for more in (0, 1, 2)
    }
    first = addresses[f"{HOST}:{shown[0]}"]
    return PageSetup(
        addresses,
        {
            "RAFTLOG_DEV_BASE_PORT": str(base),
            "RAFTLOG_HTTP": first,
            "RAFTLOG_KAFKA": "none",
            "RAFTLOG_BOOTSTRAP": first,
        },
    )


@pytest.fixture(scope="module")
def shared_cluster(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSetup]:
    """Start a cluster of `raftlog dev` for all guides that begin with a running cluster."""
    with ExitStack() as stack:
        at = make_setup(stack)
        directory = tmp_path_factory.mktemp("shared")
        flags = ("--data-dir", str(directory), "--base-port", at.environment["RAFTLOG_DEV_BASE_PORT"], "--json")
        command = [sys.executable, "-m", "raftlog.cli", "dev", *flags]
        process = stack.enter_context(fork_server.popen(command, stdout=subprocess.PIPE))
        stack.callback(process.terminate)
        assert process.stdout is not None
        assert len(json.loads(process.stdout.readline())["nodes"]) == NODES
        yield at


def required_cluster(page: list[Block]) -> str:
    return next((block.directives["cluster"] for block in page if "cluster" in block.directives), "none")


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] if path.stem in LONG else []) for path in PAGES],
    ids=lambda path: path.stem,
)
def test_the_blocks_of_a_page_run_as_printed(
    path: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
    fork_server: ForkServer,
) -> None:
    if path.name in RUN_ELSEWHERE:
        assert path.name in (ROOT / RUN_ELSEWHERE[path.name]).read_text(encoding="utf-8")
        return
    page = list(parse_blocks(path.read_text(encoding="utf-8")))
    with ExitStack() as stack:
        at = request.getfixturevalue("shared_cluster") if required_cluster(page) == "shared" else make_setup(stack)
        forked = stack.enter_context(ForkedCommand(tmp_path_factory.mktemp("bin"), fork_server))
        terminal = stack.enter_context(Terminal(tmp_path, *at, forked.directory))
        for block in page:
            terminal.type(block)


def test_a_minimum_of_blocks_is_run() -> None:
    for path in PAGES:
        page = [block for block in parse_blocks(path.read_text(encoding="utf-8")) if block.text]
        reasons = [block.directives["not run"] for block in page if "not run" in block.directives]
        assert all(len(reason.split()) >= 3 for reason in reasons), path
        assert not page or len(reasons) < len(page) or path.name in RUN_ELSEWHERE, f"nothing of {path} runs"


def test_the_output_is_compared_with_the_page() -> None:
    assert is_shown("a 0.5 s\n…\nend …", "a  1.75 s\nmore\nlines\nend of it\n")
    assert not is_shown("offsets 0 to 1", "offsets 0 to 2")
    assert not is_shown("one", "one\ntwo")
    assert split_commands("$ a \\\n  b\nc\n$ d\n") == [("a \\\n  b", "c\n"), ("d", "")]
