"""The mutation tool: its changes, and the outcomes for tests that fail, pass and hang."""

from pathlib import Path

import pytest

from jepsen.mutants import Mutant, NotApplicable
from jepsen.mutants.__main__ import is_as_expected
from jepsen.mutants.catalogue import MUTANTS
from jepsen.mutants.copies import TOP, Copy
from jepsen.mutants.trial import Outcome, Trial, run_tests, try_mutant

SOURCE = """
def twice(number: int) -> int:
    return number + number


class Counter:
    def twice(self, number: int) -> int:
        return number + number
"""


def make_mutant(**changes: str) -> Mutant:
    return Mutant("twice", "counting.py", "twice", "number + number", "number * number", ("test_twice.py",))._replace(
        **changes
    )


def test_a_change_is_made_only_in_its_function() -> None:
    changed = make_mutant().apply_to(SOURCE)
    assert changed.count("number * number") == changed.count("number + number") == 1
    assert changed.index("number * number") < changed.index("class Counter")
    assert make_mutant(function="Counter.twice").apply_to(SOURCE).index("number * number") > SOURCE.index(
        "class Counter"
    )


@pytest.mark.parametrize(
    "changes", [{"function": "thrice"}, {"old": "number - number"}, {"old": "number"}, {"new": "number +"}], ids=repr
)
def test_ambiguous_entries_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(NotApplicable, match="twice"):
        make_mutant(**changes).apply_to(SOURCE)


def test_every_mutant_of_the_catalogue_applies_and_names_existing_tests() -> None:
    assert len({each.name for each in MUTANTS}) == len(MUTANTS)
    for each in MUTANTS:
        assert each.apply_to((TOP / each.file).read_text()) != (TOP / each.file).read_text()
        for test in each.tests:
            assert (TOP / test.partition("::")[0]).exists(), f"{each.name}: {test}"


class SmallCopy(Copy):
    """Tree with a module and a test."""

    def __init__(self, directory: Path, test: str) -> None:
        self.directory = directory
        (directory / "counting.py").write_text(SOURCE)
        (directory / "test_twice.py").write_text(f"from counting import twice\n\ndef test_it():\n    {test}\n")


@pytest.mark.parametrize(
    ("test", "outcome"),
    [
        ("assert twice(3) == 6", Outcome.NOTICED),
        ("assert twice(2) == 4", Outcome.SURVIVED),
        ("return return", Outcome.BROKEN),
    ],
)
def test_a_mutant_is_tested_and_reverted(tmp_path: Path, test: str, outcome: Outcome) -> None:
    copy = SmallCopy(tmp_path, test)
    trial = try_mutant(make_mutant(), copy)
    assert trial.outcome is outcome, trial.detail
    assert copy.read("counting.py") == SOURCE
    assert try_mutant(make_mutant(old="not there"), copy).outcome is Outcome.BROKEN


def test_hanging_tests_are_stopped_and_do_not_detect_a_mutant(tmp_path: Path) -> None:
    copy = SmallCopy(tmp_path, "import threading; threading.Event().wait()")
    trial = run_tests("hanging", ("test_twice.py",), copy, timeout_s=3.0)
    assert trial.outcome is Outcome.HUNG
    assert not is_as_expected(make_mutant(), trial)


def test_an_equivalent_mutant_is_expected_to_survive() -> None:
    survived, noticed = (Trial("twice", outcome, 1.0) for outcome in (Outcome.SURVIVED, Outcome.NOTICED))
    assert is_as_expected(make_mutant(), noticed)
    assert not is_as_expected(make_mutant(), survived)
    assert is_as_expected(make_mutant(equivalent="because"), survived)
    assert not is_as_expected(make_mutant(equivalent="because"), noticed)
