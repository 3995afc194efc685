"""Bounds of settings, declared beside their defaults in a frozen dataclass and checked when it is made."""

from dataclasses import field, fields
from typing import Any, NamedTuple

from raftlog.errors import InvalidArgument


class Bounds(NamedTuple):
    """Least and greatest value of a setting."""

    low: float
    high: float


def bounded(default: Any, low: float, high: float) -> Any:
    """Return a field of a dataclass whose value is `low` to `high`, or None where its type allows that."""
    return field(default=default, metadata={"bounds": Bounds(low, high)})


def bounds_of(settings: type[Any]) -> dict[str, Bounds]:
    """Return the bounds of the fields of a dataclass that have some, by name."""
    return {each.name: each.metadata["bounds"] for each in fields(settings) if "bounds" in each.metadata}


def check_bounds(settings: Any) -> None:
    """Raise `InvalidArgument` when a setting is out of its bounds."""
    for name, (low, high) in bounds_of(type(settings)).items():
        value = getattr(settings, name)
        if value is not None and not low <= value <= high:
            raise InvalidArgument(f"{name}={value} is out of range: it must be {low} to {high}")
