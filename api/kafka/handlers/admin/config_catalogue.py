"""Catalogue of Kafka's configuration names: served ones, and those that have one fixed value here.

    served    a setting of raftlog under the same name; its value can be changed
    fixed     a value that always holds; a change to this value, or to an equivalent one, has no effect, and any other
              value is refused with the reason

A tool can write back every value that it has read. Pure; called by the handlers of configurations. The names are in
`topic_config_names` and `broker_config_names`."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.admin.outcomes import AdminRefusal

LONG_MAX: Final = 9_223_372_036_854_775_807
"""Kafka's number for "no bound"."""


class ConfigType(IntEnum):
    """Types of configuration values, with Kafka's numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8


class ConfigSource(IntEnum):
    """Sources of configuration values, with Kafka's numbers."""

    TOPIC = 1
    DEFAULT_BROKER = 3
    """Setting of the whole cluster that was changed while it runs."""
    STATIC_BROKER = 4
    """Flag of `raftlog serve`."""
    DEFAULT = 5
    BROKER_LOGGER = 6


class ConfigName(NamedTuple):
    """Kafka's name of a configuration, with its type, documentation and fixed value."""

    name: str
    type: ConfigType
    doc: str
    fixed: str | None = None
    """The only value that the configuration can have; None: a setting of the broker or topic has the value."""
    reason: str = ""
    """Reason for which another value is refused, and the next step; a sentence."""
    also: Callable[[str], bool] | None = None
    """Predicate: whether another value is equivalent to the fixed one; None: no other value is."""
    synonym: str | None = None
    """Name of the broker configuration that is the default of this topic configuration; None for others."""

    @property
    def is_served(self) -> bool:
        """Whether the value can be changed."""
        return self.fixed is None

    def check_fixed(self, value: str) -> None:
        """Raise `AdminRefusal` if `value` differs from the fixed value of this name."""
        assert self.fixed is not None
        if not is_same(self.type, value, self.fixed) and not (self.also is not None and self.also(value.strip())):
            raise AdminRefusal(
                ErrorCode.INVALID_CONFIG,
                f"{self.name}={value!r:.80} is not supported, only {self.fixed!r}. {self.reason}",
            )


def is_one_of(*values: str) -> Callable[[str], bool]:
    """Return a predicate that tests for one of these values, ignoring case; `values` are in lower case."""
    return lambda value: value.lower() in values


def is_same(kind: ConfigType, first: str, second: str) -> bool:
    """Return whether two texts stand for the same value of this type."""
    first, second = first.strip(), second.strip()
    if kind is ConfigType.BOOLEAN:
        return first.lower() == second.lower()
    if kind in (ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE):
        try:
            return float(first) == float(second) if kind is ConfigType.DOUBLE else int(first) == int(second)
        except ValueError:
            return False
    if kind is ConfigType.LIST:
        return list_of(first) == list_of(second)
    return first == second


def list_of(value: str) -> list[str]:
    """Return the elements of a comma-separated list, each once, in order."""
    return list(dict.fromkeys(element for each in value.split(",") if (element := each.strip())))


def unknown_name(name: str, kind: str, known: Iterable[str]) -> AdminRefusal:
    """Return the error for an unknown configuration name, with the nearest known name."""
    nearest = difflib.get_close_matches(name[:100], list(known), 1, 0.0)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    return AdminRefusal(ErrorCode.INVALID_CONFIG, f"There is no {kind} configuration {name!r:.100}{hint}")


def index_by_name(names: Iterable[ConfigName]) -> Mapping[str, ConfigName]:
    """Return the configuration names as a mapping, sorted by name."""
    return {each.name: each for each in sorted(names)}
