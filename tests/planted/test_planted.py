"""Every planted bug is detected by a property checked from outside, with the product's own assertions off."""

import json
import os
from collections.abc import Iterator

import pytest

from jepsen.planted import BUGS
from jepsen.planted.patch import replace_method
from tests.forked.client import ForkServer

SEEDS_MAX = 200
RARE = {
    "lift-quarantine",
    "accept-stale-disk",
    "damaged-journal-begins-anew",
    "overwrite-before-cut",
    "cut-corrupt",
    "removed-disturbs",
    "two-changes-at-once",
}
"""Half a minute of seeds and more until they are found."""
SECONDS_MAX = 600


@pytest.fixture(scope="module")
def server_without_assertions() -> Iterator[ForkServer]:
    """Fork server that runs Python without assertions."""
    server = ForkServer(["jepsen.planted.registry", "jepsen.simulation.campaign"], "-O")
    yield server
    server.close()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in RARE else []) for name in BUGS]
)
def test_a_planted_bug_is_detected(name: str, server_without_assertions: ForkServer) -> None:
    bug = BUGS[name]
    # The kept seed is tried first; others only if a change of the product has moved the draws.
    hunt = (name, str(bug.found_within), str(SEEDS_MAX))
    done = server_without_assertions.run("jepsen.planted.hunt", hunt, b"", os.environ, SECONDS_MAX)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert found["property"] in bug.properties, found


def test_each_bug_has_a_seed_within_the_bound() -> None:
    assert len(BUGS) >= 16
    assert all(1 <= bug.found_within <= SEEDS_MAX for bug in BUGS.values())


def test_a_bug_at_a_missing_function_is_an_error() -> None:
    with pytest.raises(AttributeError):
        replace_method(pytest, "no_such_function", None)
