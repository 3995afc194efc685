"""How a run can end badly, and what is said about it."""

from collections.abc import Mapping
from typing import ClassVar


class PropertyBroken(Exception):
    """A promise of the log is broken, seen from outside; `numbers` are the evidence."""

    said: ClassVar[list["PropertyBroken"]] = []
    """Of this run. Code under test may catch what it met inside of it; a verdict stands all the same."""

    def __init__(self, name: str, numbers: Mapping[str, object]) -> None:
        super().__init__(f"{name}: {', '.join(f'{key}={value}' for key, value in numbers.items())}")
        self.name = name
        self.numbers = dict(numbers)
        self.said.append(self)


def insist() -> None:
    """Raise the first broken property again, even if code under test has caught it."""
    if PropertyBroken.said:
        raise PropertyBroken.said[0]
