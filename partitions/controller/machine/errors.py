"""Errors with which the controller refuses a command, which then changes nothing: a subset of `raftlog.errors`.

In the state an error is a number and its message, so that a repeated request gets the same answer."""

from typing import Final

from raftlog.errors import (
    ChangeRefused,
    IdentityRefused,
    InvalidArgument,
    RaftlogError,
    TopicExists,
    Unavailable,
    UnknownBroker,
    UnknownPartition,
    UnknownTopic,
    UnknownUser,
    UserExists,
    VersionConflict,
)

MESSAGE_CHARACTERS_MAX: Final = 400

NUMBERS: Final[dict[type[RaftlogError], int]] = {
    InvalidArgument: 1,
    TopicExists: 2,
    UnknownTopic: 3,
    UnknownPartition: 4,
    UnknownBroker: 5,
    IdentityRefused: 6,
    VersionConflict: 7,
    ChangeRefused: 8,
    Unavailable: 9,
    UnknownUser: 10,
    UserExists: 11,
}
"""Numbers of the errors; part of the format and never reused."""
_BY_NUMBER: Final = {number: error for error, number in NUMBERS.items()}


def as_number(error: RaftlogError) -> int:
    """Return the number of an error with which a command can end."""
    number = NUMBERS.get(type(error))
    assert number is not None, f"a command must not end with {type(error).__name__}: {error}"
    return number


def from_number(number: int, message: str) -> RaftlogError:
    """Return the error for a number from `as_number`."""
    return _BY_NUMBER[number](message)


def check_version(label: str, version: int, expected: int | None) -> None:
    """Raise `VersionConflict` unless the object called `label` has the expected version; None allows any version."""
    if expected not in (None, version):
        raise VersionConflict(f"{label} has version {version}, not {expected}: read it again")
