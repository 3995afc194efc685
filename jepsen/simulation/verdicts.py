"""Errors that end a run: a broken property, and a harness that cannot continue."""

from collections.abc import Mapping
from typing import ClassVar

from jepsen.checkers import HistoryChecker, Op


class PropertyBroken(Exception):
    """Violation of a promise of the log, as observed from outside; `numbers` are the evidence."""

    raised: ClassVar[list["PropertyBroken"]] = []
    """Errors raised in this run. Code under test may catch one that was raised inside of it; the verdict stays."""

    def __init__(self, name: str, numbers: Mapping[str, object]) -> None:
        super().__init__(f"{name}: {', '.join(f'{key}={value}' for key, value in numbers.items())}")
        self.name = name
        self.numbers = dict(numbers)
        self.raised.append(self)


def feed_checker(checker: HistoryChecker, op: Op) -> None:
    """Check a completed operation at once. Raises `PropertyBroken` for an anomaly."""
    for anomaly in checker.feed(op):
        raise PropertyBroken(anomaly.kind, {"what": anomaly.what, "operations": "; ".join(map(str, anomaly.ops))})


def reraise_recorded() -> None:
    """Raise the first broken property again, if there was one, since code under test may have caught it."""
    if PropertyBroken.raised:
        raise PropertyBroken.raised[0]
