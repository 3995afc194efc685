"""Settings of the cluster: names, allowed values and current values.

The controller's state holds them as text, from feature level 3 on, and all brokers apply them as they receive them. A
value that this release cannot use (a newer one wrote it) counts as the default, and so does one that was never set.
Pure. Changes are validated with `check_settings`; readers of a setting call `current_settings` whenever they need
it."""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from raftlog.errors import InvalidArgument
from raftlog.partitions.controller.machine import ClusterState
from raftlog.topic_config import MIB
from raftlog.values.cluster import SettingDescription, SettingType, SettingValue
from raftlog.values.placement import BalancerMode

_MODES: Final[tuple[BalancerMode, ...]] = ("off", "node_add", "continuous")
_REPAIR_MS_MIN: Final = 1_000
_MOVES_MAX: Final = 10_000

_MANY: Final = 1 << 40


class InvalidSetting(ValueError):
    """Text that is not a valid value of a setting."""


class Setting(NamedTuple):
    """Definition of a setting of the cluster.

    `read` converts text to a value and raises `ValueError` for invalid text. `allowed` describes the valid values."""

    type: SettingType
    default: SettingValue
    allowed: str
    doc: str
    read: Callable[[str], SettingValue]


def _number_reader(low: int, high: int, *others: int) -> Callable[[str], int]:
    """Return a function that parses a whole number within bounds, or one of `others`."""

    def read(text: str) -> int:
        """Return the number in the text. Raises `InvalidSetting` if it is not permitted."""
        value = int(text) if text.isascii() and "_" not in text else None
        if value is None or not (low <= value <= high or value in others):
            raise InvalidSetting(text)
        return value

    return read


def _choice_reader(*words: str) -> Callable[[str], str]:
    """Return a function that accepts one of these values."""

    def read(text: str) -> str:
        """Return the text. Raises `InvalidSetting` if it is not one of the words."""
        if text not in words:
            raise InvalidSetting(text)
        return text

    return read


def _read_flag(text: str) -> bool:
    """Return the boolean in the text. Raises `InvalidSetting`."""
    return _choice_reader("true", "false")(text.lower()) == "true"


BALANCER_MODE: Final = "balancer.mode"
REPAIR_AFTER_MS: Final = "replicas.repair.after.ms"
BALANCER_MOVES_MAX: Final = "balancer.moves.max"
CATCH_UP_BYTES_PER_S: Final = "catch.up.bytes.per.s"
LEADERS_BALANCE: Final = "leaders.balance"

SETTINGS: Final[Mapping[str, Setting]] = {
    BALANCER_MODE: Setting(
        "string",
        "continuous",
        "off, node_add or continuous",
        "When replicas are evened out over brokers: never, only towards brokers that have joined, or whenever they are "
        "uneven. Decommissioned brokers are emptied, and lost replicas replaced, in every mode.",
        _choice_reader(*_MODES),
    ),
    BALANCER_MOVES_MAX: Setting(
        "integer",
        16,
        f"1 to {_MOVES_MAX}",
        "Partitions that the balancer moves at the same time, in the whole cluster.",
        _number_reader(1, _MOVES_MAX),
    ),
    CATCH_UP_BYTES_PER_S: Setting(
        "integer",
        -1,
        f"-1, or {MIB} to {_MANY}",
        "Bytes that each broker sends a second, all together, to replicas elsewhere that are filled or repaired. "
        "-1: the setting that each broker was started with.",
        _number_reader(MIB, _MANY, -1),
    ),
    LEADERS_BALANCE: Setting(
        "boolean",
        True,
        "true or false",
        "Whether leaderships are evened out over brokers, and go back to a preferred leader that has returned.",
        _read_flag,
    ),
    REPAIR_AFTER_MS: Setting(
        "integer",
        900_000,
        f"-1, or {_REPAIR_MS_MIN} to {_MANY}",
        "Milliseconds after which the replicas of a broker that is away are created anew on others. -1: never.",
        _number_reader(_REPAIR_MS_MIN, _MANY, -1),
    ),
}
"""All settings by name, sorted."""


class ClusterConfig(NamedTuple):
    """All settings of the cluster by name, sorted: values, descriptions, and names of those that were set.

    `version` is 0 when none was ever changed."""

    version: int
    values: Mapping[str, SettingValue]
    properties: Mapping[str, SettingDescription]
    changed: Collection[str]


class CurrentSettings(NamedTuple):
    """Current values of the settings. Times in milliseconds.

    `catch_up_bytes_per_s` is None where each broker's own flag applies, `repair_after_ms` where lost replicas are not
    replaced."""

    balancer_mode: BalancerMode
    balancer_moves_max: int
    catch_up_bytes_per_s: int | None
    leaders_balance: bool
    repair_after_ms: int | None


def current_settings(state: ClusterState) -> CurrentSettings:
    """Return the settings in a state of the controller."""
    return _typed_settings(state.settings.first().configs if len(state.settings) else ())


@lru_cache(maxsize=8)
def _typed_settings(configs: tuple[tuple[str, str], ...]) -> CurrentSettings:
    """Return the typed settings; cached by their stored values."""
    values = _values(dict(configs))
    mode = next(mode for mode in _MODES if mode == values[BALANCER_MODE])
    return CurrentSettings(
        mode,
        int(values[BALANCER_MOVES_MAX]),
        _none_if_off(int(values[CATCH_UP_BYTES_PER_S])),
        bool(values[LEADERS_BALANCE]),
        _none_if_off(int(values[REPAIR_AFTER_MS])),
    )


def _none_if_off(number: int) -> int | None:
    """Return a number; None for a negative one, which turns the setting off."""
    return None if number < 0 else number


def _values(configs: Mapping[str, str]) -> dict[str, SettingValue]:
    """Return all settings by name, with defaults for missing or invalid ones."""
    values = {}
    for name, setting in SETTINGS.items():
        try:
            values[name] = setting.read(configs[name])
        except (KeyError, ValueError):
            values[name] = setting.default
    return values


def describe_settings(state: ClusterState) -> ClusterConfig:
    """Return all settings with descriptions, for operators."""
    row = state.settings.first() if len(state.settings) else None
    configs = {} if row is None else dict(row.configs)
    properties = {
        name: SettingDescription(
            description=setting.doc, type=setting.type, default=setting.default, allowed=setting.allowed
        )
        for name, setting in SETTINGS.items()
    }
    return ClusterConfig(0 if row is None else row.version, _values(configs), properties, configs)


def check_settings(upsert: Mapping[str, object]) -> dict[str, str]:
    """Return the settings as text. Raises `InvalidArgument` that lists unknown names and invalid values."""
    problems = [_unknown_text(name) for name in upsert if name not in SETTINGS]
    texts = {}
    for name, value in upsert.items():
        if name not in SETTINGS:
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        try:
            texts[name] = (
                str(SETTINGS[name].read(text)).lower() if isinstance(value, str | int) else _raise_invalid(text)
            )
        except ValueError:
            problems.append(f"{name} cannot be {value!r:.60}; it can be {SETTINGS[name].allowed}")
    _raise_problems(problems)
    return texts


def check_names(names: Mapping[str, object] | tuple[str, ...]) -> None:
    """Raise `InvalidArgument` for unknown settings."""
    _raise_problems([_unknown_text(name) for name in names if name not in SETTINGS])


def _unknown_text(name: str) -> str:
    """Return the error text for a setting that does not exist."""
    return f"setting {name!r} does not exist"


def _raise_invalid(text: str) -> str:
    """Raise `InvalidSetting`."""
    raise InvalidSetting(text)


def _raise_problems(problems: list[str]) -> None:
    """Raise `InvalidArgument` if there are problems."""
    if problems:
        raise InvalidArgument(f"{'; '.join(problems[:10])}; the cluster's settings are {', '.join(SETTINGS)}")
