"""The tool that tries mutants: what it changes, and what it makes of tests that fail, pass and hang."""

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


def mutant(**changes: str) -> Mutant:
    return Mutant("twice", "counting.py", "twice", "number + number", "number * number", ("test_twice.py",))._replace(
        **changes
    )


def test_a_change_is_made_in_its_function_alone() -> None:
    changed = mutant().applied_to(SOURCE)
    assert changed.count("number * number") == changed.count("number + number") == 1
    assert changed.index("number * number") < changed.index("class Counter")
    assert mutant(function="Counter.twice").applied_to(SOURCE).index("number * number") > SOURCE.index("class Counter")


@pytest.mark.parametrize(
    "changes", [{"function": "thrice"}, {"old": "number - number"}, {"old": "number"}, {"new": "number +"}], ids=repr
)
def test_entries_without_space_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(NotApplicable, match="twice"):
        mutant(**changes).applied_to(SOURCE)


def test_every_mutant_of_the_catalogue_applies_and_names_tests_that_exist() -> None:
    assert len({each.name for each in MUTANTS}) == len(MUTANTS)
    for each in MUTANTS:
        assert each.applied_to((TOP / each.file).read_text()) != (TOP / each.file).read_text()
        for test in each.tests:
            assert (TOP / test.partition("::")[0]).exists(), f"{each.name}: {test}"


class SmallCopy(Copy):
    """A tree of two files."""

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
def test_a_mutant_is_tried_and_taken_back(tmp_path: Path, test: str, outcome: Outcome) -> None:
    copy = SmallCopy(tmp_path, test)
    trial = try_mutant(mutant(), copy)
    assert trial.outcome is outcome, trial.detail
    assert copy.read("counting.py") == SOURCE
    assert try_mutant(mutant(old="not there"), copy).outcome is Outcome.BROKEN


def test_tests_that_hang_are_ended_and_do_not_count_as_noticing(tmp_path: Path) -> None:
    copy = SmallCopy(tmp_path, "import threading; threading.Event().wait()")
    trial = run_tests("hanging", ("test_twice.py",), copy, timeout_s=3.0)
    assert trial.outcome is Outcome.HUNG
    assert not is_as_expected(mutant(), trial)


def test_a_proof_of_equivalence_turns_what_is_expected() -> None:
    survived, noticed = (Trial("twice", outcome, 1.0) for outcome in (Outcome.SURVIVED, Outcome.NOTICED))
    assert is_as_expected(mutant(), noticed)
    assert not is_as_expected(mutant(), survived)
    assert is_as_expected(mutant(equivalent="because"), survived)
    assert not is_as_expected(mutant(equivalent="because"), noticed)
