"""Settings of a consumer instance, given when it is created, under the REST Proxy's names. Pure.

JSON strings, numbers and booleans are accepted alike (`"false"`, `false`), because clients send either."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from raftlog.assignors import ASSIGNORS
from raftlog.errors import InvalidConsumer
from raftlog.records.field_names import describe_unknown_field
from raftlog.records.json_record import shorten_json

FORMATS: Final = ("binary", "json")
RESETS: Final = ("latest", "earliest", "none")
REQUEST_TIMEOUT_MS_MAX: Final = 600_000
FETCH_MIN_BYTES_MAX: Final = 64 * 1024 * 1024
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f/]{1,255}")
_OWNER: Final = "owner"
"""Name of the owner among the stored settings; clients cannot set it."""
_BOOLEANS: Final = {"true": True, "false": False}


class Owner(NamedTuple):
    """User that created an instance, and the host of its connection."""

    principal: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSettings:
    """Settings of one instance; the defaults are those of the REST Proxy and of Kafka's consumer."""

    format: str = "binary"
    """Format of records in answers: `binary` (base64) or `json`."""
    reset: str = "latest"
    """Position without a committed offset, or when it is not in the log: `latest`, `earliest`, or `none`.

    With `none` a poll returns an error."""
    auto_commit: bool = True
    """Whether a poll commits the records that earlier polls delivered."""
    fetch_min_bytes: int = 1
    """Bytes that a poll waits for until its time is up."""
    request_timeout_ms: int = 1_000
    """Longest wait of a poll, whatever the request asks for."""
    strategy: str = "range"
    """Name of the assignor."""
    owner: Owner | None = None
    """User that created the instance, whose permissions its reads need; None without permissions."""

    def as_mapping(self) -> dict[str, Any]:
        """Return a mapping from which `read_settings` makes the same settings."""
        owner = {} if self.owner is None else {_OWNER: list(self.owner)}
        return {name: getattr(self, attribute) for name, (attribute, _) in _SETTINGS.items()} | owner


def read_stored_settings(stored: Mapping[str, Any]) -> InstanceSettings:
    """Return the settings in the mapping of another broker or of the log. Raises `InvalidConsumer`."""
    rest = dict(stored)
    match rest.pop(_OWNER, None):
        case None:
            return read_settings(rest)
        case [str(principal), str(address)]:
            return replace(read_settings(rest), owner=Owner(principal, address))
        case wrong:
            raise InvalidConsumer(f"the owner of a consumer instance cannot be {shorten_json(wrong)}")


def read_settings(given: Mapping[str, Any]) -> InstanceSettings:
    """Return the settings in a client's mapping. Raises `InvalidConsumer` that lists the valid values."""
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        raise InvalidConsumer(f"a consumer instance: {describe_unknown_field(unknown, ('name', *NAMES), 'setting')}")
    given_values = {name: value for name, value in given.items() if value is not None}
    read = {
        attribute: read(name, given_values[name])
        for name, (attribute, read) in _SETTINGS.items()
        if name in given_values
    }
    return InstanceSettings(**read)


def check_name(name: str) -> None:
    """Raise `InvalidConsumer` for an invalid name of an instance."""
    if not _NAME.fullmatch(name) or not _is_utf8(name) or name in (".", ".."):
        raise InvalidConsumer(
            "the name of a consumer instance has 1 to 255 characters, no slash and no control characters, and is not . "
            "or .., which clients drop from an address"
        )


def _is_utf8(name: str) -> bool:
    """Return whether the text can be encoded as UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True


def _choice_reader(*possible: str) -> Callable[[str, Any], str]:
    """Return a reader of a setting that has one of these values."""

    def read(name: str, value: Any) -> str:
        """Return the value as text. Raises `InvalidConsumer` if it is not one of the possible ones."""
        if value not in possible:
            raise InvalidConsumer(f"{name} cannot be {shorten_json(value)}; it can be {', '.join(possible)}")
        return str(value)

    return read


def _read_boolean(name: str, value: Any) -> bool:
    """Return the boolean of a JSON value or text. Raises `InvalidConsumer`."""
    found = _BOOLEANS.get(value.lower()) if type(value) is str else value
    if type(found) is not bool:
        raise InvalidConsumer(f"{name} cannot be {shorten_json(value)}; it can be true or false")
    return found


def _number_reader(high: int) -> Callable[[str, Any], int]:
    """Return a reader of a whole number up to `high`."""

    def read(name: str, value: Any) -> int:
        """Return the number of a JSON value or text. Raises `InvalidConsumer` if it is not in the bounds."""
        number = int(value) if type(value) is str and value.isascii() and value.isdigit() and len(value) < 20 else value
        if type(number) is not int or not 0 <= number <= high:
            raise InvalidConsumer(f"{name} cannot be {shorten_json(value)}; it can be a whole number in 0 … {high}")
        return number

    return read


_SETTINGS: Final[Mapping[str, tuple[str, Callable[[str, Any], Any]]]] = {
    "format": ("format", _choice_reader(*FORMATS)),
    "auto.offset.reset": ("reset", _choice_reader(*RESETS)),
    "auto.commit.enable": ("auto_commit", _read_boolean),
    "fetch.min.bytes": ("fetch_min_bytes", _number_reader(FETCH_MIN_BYTES_MAX)),
    "consumer.request.timeout.ms": ("request_timeout_ms", _number_reader(REQUEST_TIMEOUT_MS_MAX)),
    "partition.assignment.strategy": ("strategy", _choice_reader(*ASSIGNORS)),
}
"""Attribute and reader of a value, by the REST Proxy's names."""
NAMES: Final = tuple(_SETTINGS)
