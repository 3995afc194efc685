"""One browser, and one broker with data, for all tests of the pages.

Pictures of every page are kept in the directory of the environment variable RAFTLOG_PICTURES, or among pytest's
temporary files."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.testing import Cluster
from raftlog.testing.http import ask
from tests.console.open_console import DESKTOP, OpenConsole

SCRIPT = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
LONG = "line of a long value\n" * 50_000
"""1 MB of text."""
GROUPS = 55
"""More than one page of a list."""


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def send(cluster: Cluster, path: str, body: object, method: str = "POST") -> Any:
    status, answer = ask(cluster.addresses[0], path, method=method, body=body, timeout_s=60)
    assert status < 300, answer
    return answer


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Run a single broker that allows changes from its console, with topics, records and groups."""
    with Cluster(1, serve_flags=("--console-writes",), ready_timeout_s=120) as cluster:
        for name, partitions in (("orders", 3), ("hostile", 1)):
            topic = {"topic_name": name, "partitions_count": partitions}
            send(cluster, "/v3/clusters/-/topics", topic)
        orders = [{"key": f"k{n}", "value": {"id": n, "big": 9007199254740993123}, "partition": 0} for n in range(120)]
        send(cluster, "/topics/orders", {"records": orders})
        text = {"key": "text", "value": "text"}
        hostile = [
            {"key": SCRIPT, "value": SCRIPT, "headers": [{"name": SCRIPT, "value": encoded(SCRIPT.encode())}]},
            {"key": "bytes", "value": encoded(b"\xff\xfe\x00Raft\x80"), "encoding": {"key": "text", "value": "base64"}},
            {"key": "long", "value": LONG},
            {"key": "gone", "value": None, "encoding": {"key": "text"}},
            {"key": "turned \u202e around", "value": "bell \u0007"},
        ]
        send(cluster, "/topics/hostile", {"records": [{"encoding": text, **each} for each in hostile]})
        send(cluster, "/transactions/pay-rent/producer", {})
        for number in range(GROUPS):
            committed = {"offsets": [{"topic": "orders", "partition": 0, "offset": 20}]}
            send(cluster, f"/groups/team-{number:02}/offsets", committed)
        yield cluster


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenConsole]:
    pictures = Path(os.environ.get("RAFTLOG_PICTURES") or tmp_path_factory.mktemp("pictures"))
    pictures.mkdir(parents=True, exist_ok=True)
    browser = OpenConsole(pictures)
    yield browser
    browser.close()


@pytest.fixture
def console(browser: OpenConsole) -> Iterator[OpenConsole]:
    """Return the browser in its usual size; afterwards assert that no script failed."""
    browser.show_as(DESKTOP, "light")
    yield browser
    problems = browser.list_problems()
    browser.leave()
    assert problems == []


@pytest.fixture(scope="session")
def read_only_cluster() -> Iterator[Cluster]:
    """Run a single broker whose console is read-only."""
    with Cluster(1, ready_timeout_s=120) as cluster:
        yield cluster


@pytest.fixture
def read_only(read_only_cluster: Cluster) -> str:
    """Return the address of the read-only broker."""
    return read_only_cluster.addresses[0]
