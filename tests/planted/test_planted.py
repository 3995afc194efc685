"""Every planted bug is detected by a property checked from outside, with the product's own assertions off."""

import json
import os
from collections.abc import Iterator

import pytest

from jepsen.planted import BUGS
from jepsen.planted.patch import replace_method
from tests.forked.client import ForkServer

SEEDS_MAX = 200
RARE = {"lift-quarantine", "accept-stale-disk", "damaged-journal-begins-anew"}
"""Half a minute of seeds and more until they are found."""
SECONDS_MAX = 600


@pytest.fixture(scope="module")
def unasserting() -> Iterator[ForkServer]:
    server = ForkServer(["jepsen.planted.registry", "jepsen.simulation.campaign"], "-O")
    yield server
    server.close()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in RARE else []) for name in BUGS]
)
def test_a_planted_bug_is_found(name: str, unasserting: ForkServer) -> None:
    bug = BUGS[name]
    # From the seed that is known to find it: other seeds are tried only when the product has changed since.
    hunt = (name, str(bug.found_within), str(SEEDS_MAX))
    done = unasserting.run("jepsen.planted.hunt", hunt, b"", os.environ, SECONDS_MAX)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert found["property"] in bug.properties, found


def test_each_is_found_within_two_hundred_seeds() -> None:
    assert len(BUGS) >= 16
    assert all(1 <= bug.found_within <= SEEDS_MAX for bug in BUGS.values())


def test_a_bug_without_its_place_in_the_product_is_an_error() -> None:
    with pytest.raises(AttributeError):
        replace_method(pytest, "no_such_function", None)
