"""Bounds of settings, declared beside their defaults in a frozen dataclass and checked when an instance is made."""

from dataclasses import field, fields
from typing import Any, NamedTuple

from raftlog.errors import InvalidArgument


class Bounds(NamedTuple):
    """Minimum and maximum of a setting."""

    low: float
    high: float


def bounded_field(default: Any, low: float, high: float) -> Any:
    """Return a dataclass field with values from `low` to `high`, or None if its type allows None."""
    return field(default=default, metadata={"bounds": Bounds(low, high)})


def bounds_of(settings: type[Any]) -> dict[str, Bounds]:
    """Return the bounds of a dataclass's fields by name, without fields that have none."""
    return {each.name: each.metadata["bounds"] for each in fields(settings) if "bounds" in each.metadata}


def check_bounds(settings: Any) -> None:
    """Raise `InvalidArgument` if a setting is out of its bounds."""
    for name, (low, high) in bounds_of(type(settings)).items():
        value = getattr(settings, name)
        if value is not None and not low <= value <= high:
            raise InvalidArgument(f"{name}={value} is out of range: it must be {low} to {high}")
