"""Every planted bug is condemned by a property seen from outside, with the product's own assertions off."""

import pytest

from jepsen.planted import BUGS
from jepsen.planted.__main__ import hunt_in_process
from jepsen.planted.patching import replace_method

SEEDS_MAX = 200
RARE = {"lift-quarantine", "accept-stale-disk", "damaged-journal-begins-anew"}
"""Half a minute of seeds and more until they are found."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in RARE else []) for name in BUGS]
)
def test_a_planted_bug_is_found(name: str) -> None:
    bug = BUGS[name]
    # From the seed that is known to find it: other seeds are tried only when the product has changed since.
    found = hunt_in_process(name, bug.found_within, SEEDS_MAX)
    assert found["property"] in bug.properties, found


def test_each_is_found_within_two_hundred_seeds() -> None:
    assert len(BUGS) >= 16
    assert all(1 <= bug.found_within <= SEEDS_MAX for bug in BUGS.values())


def test_a_bug_whose_place_in_the_product_is_gone_is_an_error() -> None:
    with pytest.raises(AttributeError):
        replace_method(pytest, "no_such_function", None)
