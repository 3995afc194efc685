"""Why the controller refuses a command: the tree of `raftlog.errors`, with branches that only the controller has.

    RequestError
    ├── InvalidArgument
    │   └── PlacementImpossible   more replicas than hosts
    ├── UnknownBroker             no broker of that node id, or not with that disk
    ├── IdentityRefused           a stale copy of a disk, a removed disk, or a node id that another disk has
    └── VersionConflict           compare and set: it was changed meanwhile

All are definite. In the state an error is a number and its message, so that a repeated request gets the same answer.
"""

from typing import Final

from raftlog.errors import (
    ChangeRefused,
    InvalidArgument,
    RaftlogError,
    RequestError,
    TopicExists,
    Unavailable,
    UnknownPartition,
    UnknownTopic,
)

MESSAGE_CHARACTERS_MAX: Final = 400


class PlacementImpossible(InvalidArgument):
    """More replicas are wanted than there are hosts to put them on."""


class UnknownBroker(RequestError):
    """No broker of that node id, or not with that disk."""


class IdentityRefused(RequestError):
    """A process that must not act as the broker that it says it is; the message says what to do."""


class VersionConflict(RequestError):
    """What was to be changed is not as the caller believes; read it again and decide anew."""


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
}
"""The numbers are part of the format and are never reused."""
_BY_NUMBER: Final = {number: error for error, number in NUMBERS.items()}


def as_number(error: RaftlogError) -> int:
    """The number of an error that a command can end with."""
    number = NUMBERS.get(type(error))
    assert number is not None, f"a command must not end with {type(error).__name__}: {error}"
    return number


def from_number(number: int, message: str) -> RaftlogError:
    """The error of a number that `as_number` gave."""
    return _BY_NUMBER[number](message)
