"""Members of a JSON object in a request: of the right type, within bounds, or a refusal that names them.

A member of another type is 422 (42203), a value out of its bounds 400 (40002), and so is a member that the object
cannot have: a misspelt one would be taken for none. Used by all handlers with JSON bodies.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Self

from raftlog.api.codes import BAD_REQUEST, EMPTY_REQUEST, INVALID_JSON
from raftlog.api.http.server.problems import HttpProblem
from raftlog.records.field_names import unknown_field
from raftlog.records.json_record import shown

TEXT_LENGTH_MAX: Final = 32_767
"""Of a string, as of Kafka's."""
ROWS_MAX: Final = 10_000
"""Of a list of objects."""
INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1


def refuse_unknown(values: Mapping[str, Any], known: Sequence[str], place: str = "the body") -> None:
    """Raises `HttpProblem` 400 for a member that is not known, with the nearest known name."""
    unknown = values.keys() - {*known}
    if unknown:
        raise HttpProblem(BAD_REQUEST, f"{place}: {unknown_field(unknown, known)}")


class JsonFields:
    """One object with members of these names and no others; `place` is its name in messages."""

    __slots__ = ("_place", "_values")

    def __init__(self, values: Mapping[str, Any], known: Sequence[str], place: str = "the body") -> None:
        """Raises `HttpProblem` 400 for other members."""
        refuse_unknown(values, known, place)
        self._values = values
        self._place = place

    def __contains__(self, name: str) -> bool:
        """Whether it is there, and is not null."""
        return self._values.get(name) is not None

    def __getitem__(self, name: str) -> Any:
        """What is there, unchecked; null when nothing is."""
        return self._values.get(name)

    def text(self, name: str, default: str | None = None) -> str:
        """A string; without a default it has to be there."""
        value = self._values.get(name)
        if value is None and default is not None:
            return default
        if type(value) is not str:
            raise self._other(name, "a string", value)
        if len(value) > TEXT_LENGTH_MAX:
            raise self._too_long(name, len(value), TEXT_LENGTH_MAX, "characters")
        return value

    def maybe_text(self, name: str) -> str | None:
        """A string, or None where it is null or not there."""
        return self.text(name) if name in self else None

    def whole(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number in `low … high`; without a default it has to be there."""
        value = self._values.get(name)
        if value is None and default is not None:
            return default
        if type(value) is not int:
            raise self._other(name, "a whole number", value)
        if not low <= value <= high:
            raise HttpProblem(BAD_REQUEST, f"{name!r} of {self._place} is {value}; it can be {low} … {high}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self._values.get(name)
        if value is None:
            return default
        if type(value) is not bool:
            raise self._other(name, "true or false", value)
        return value

    def data(self, name: str) -> bytes:
        """Bytes, as base64."""
        text = self._values.get(name)
        if type(text) is str:
            with suppress(binascii.Error, ValueError):
                return base64.b64decode(text, validate=True)
        raise self._other(name, "base64", text)

    def choice(self, name: str, *choices: str) -> str:
        """One of these; the first, where nothing is said."""
        value = self.text(name, choices[0])
        if value not in choices:
            raise HttpProblem(
                BAD_REQUEST, f"{name!r} of {self._place} is {shown(value)}; it can be {', '.join(choices)}"
            )
        return value

    def texts(self, name: str) -> list[str]:
        """A list of strings, empty where it is null or not there."""
        values = self._values.get(name)
        if values is None:
            return []
        if type(values) is not list or any(type(value) is not str for value in values):
            raise self._other(name, "a list of strings", values)
        if len(values) > ROWS_MAX:
            raise self._too_long(name, len(values), ROWS_MAX, "entries")
        longest = max(map(len, values), default=0)
        if longest > TEXT_LENGTH_MAX:
            raise self._too_long(name, longest, TEXT_LENGTH_MAX, "characters in an entry")
        return values

    def objects(self, name: str, known: Sequence[str], *, can_be_empty: bool = False) -> list[Self]:
        """A list of objects with members of the known names. Where it can be empty it need not be there."""
        values = self._values.get(name)
        if values is None and can_be_empty:
            return []
        if type(values) is not list or any(type(value) is not dict for value in values):
            raise self._other(name, "a list of objects", values)
        if not values and not can_be_empty:
            raise HttpProblem(EMPTY_REQUEST, f"the list {name!r} of {self._place} is empty")
        if len(values) > ROWS_MAX:
            raise self._too_long(name, len(values), ROWS_MAX, "entries")
        return [type(self)(value, known, f"{name!r}[{number}]") for number, value in enumerate(values)]

    def _too_long(self, name: str, length: int, most: int, what: str) -> HttpProblem:
        return HttpProblem(BAD_REQUEST, f"{name!r} of {self._place} has {length:,} {what}; it can have {most:,}")

    def _other(self, name: str, wanted: str, value: object) -> HttpProblem:
        is_there = "is not there" if value is None else f"is {shown(value)}"
        return HttpProblem(INVALID_JSON, f"{name!r} of {self._place} {is_there}; it has to be {wanted}")
