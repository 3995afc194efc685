"""Errors about unknown fields of JSON objects; without an error a misspelt field would silently get its default.

Used by every reader of JSON objects from outside: records, bodies of HTTP requests, settings of consumer
instances."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

_SHOWN_CHARACTERS_MAX: Final = 60
"""Longer names are cut in errors, and get no suggestion, since the comparison takes quadratic time."""
_LIKENESS_MIN: Final = 0.5


def describe_unknown_field(unknown: Iterable[str], known: Sequence[str], kind: str = "field") -> str:
    """Return the text of an error about the first unknown name, with the nearest known name and all known names."""
    name = min(unknown)
    if len(name) > _SHOWN_CHARACTERS_MAX:
        return f"unknown {kind} {name[:_SHOWN_CHARACTERS_MAX]!r}…; it can have {', '.join(known)}"
    near = difflib.get_close_matches(name, known, n=1, cutoff=_LIKENESS_MIN)
    guess = f" (did you mean {near[0]!r}?)" if near else ""
    return f"unknown {kind} {name!r}{guess}; it can have {', '.join(known)}"
