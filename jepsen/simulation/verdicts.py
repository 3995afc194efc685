"""How a run can end badly, and what is said about it."""

from collections.abc import Mapping


class PropertyBroken(Exception):
    """A promise of the log is broken, seen from outside; `numbers` are the evidence."""

    def __init__(self, name: str, numbers: Mapping[str, object]) -> None:
        super().__init__(f"{name}: {', '.join(f'{key}={value}' for key, value in numbers.items())}")
        self.name = name
        self.numbers = dict(numbers)
