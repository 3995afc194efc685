"""Outcomes of the parts of an administrative request: error code and message for each topic or resource.

This module converts errors of administrative requests to codes: by `error_codes.code_of`, unless the kind of request
has another code for an error (`Meanings`). Called by all handlers of this package."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, TypeVar

from raftlog import errors
from raftlog.api.kafka.error_codes import CODES, ErrorCode, code_of
from raftlog.errors import RaftlogError
from raftlog.partitions.deadline import Deadline, deadline_in

Item = TypeVar("Item")
Result = TypeVar("Result")

TIMEOUT_MS_MIN: Final = 3_000
"""Minimum timeout of a change: librdkafka sends 0 to not wait for the leaders of new topics."""
TIMEOUT_MS_MAX: Final = 300_000
AT_ONCE: Final = 16
"""Parts of one request that are executed at the same time."""


class Outcome(NamedTuple):
    """Error code and message of one part of an answer."""

    code: ErrorCode
    message: str | None


DONE: Final = Outcome(ErrorCode.NONE, None)


class AdminRefusal(RaftlogError):
    """Refusal of one part of a request, with Kafka's error code."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.part = Outcome(code, message)


Meanings: TypeAlias = Mapping[type[RaftlogError], ErrorCode]
"""Error codes that one kind of request uses in place of the usual ones; the nearest base class of an error counts."""

CONTROLLER: Final[Meanings] = MappingProxyType(
    dict.fromkeys(
        (errors.Unavailable, errors.NoLeader, errors.NotLeader, errors.Overloaded, errors.VersionConflict),
        ErrorCode.NOT_CONTROLLER,  # a definite refusal that clients retry
    )
)
"""Error codes in requests for changes of the controller's state."""


def outcome_of(error: RaftlogError, meanings: Meanings = CONTROLLER) -> Outcome:
    """Return Kafka's error code and message for an error; `meanings` overrides codes."""
    if isinstance(error, AdminRefusal):
        return error.part
    for kind in type(error).__mro__:
        code = meanings.get(kind)
        if code is not None:
            return Outcome(code, str(error))
        if kind in CODES:
            break
    return Outcome(code_of(error), str(error))


async def attempt(work: Awaitable[object], meanings: Meanings = CONTROLLER) -> Outcome:
    """Wait for one part of a request; return `DONE`, or the outcome for the `RaftlogError` that it raised."""
    try:
        await work
    except RaftlogError as error:
        return outcome_of(error, meanings)
    return DONE


async def run_in_parallel(items: Sequence[Item], work: Callable[[Item], Awaitable[Result]]) -> list[Result]:
    """Run `work` on all items, at most `AT_ONCE` at a time; return the results in the order of the items."""
    results: dict[int, Result] = {}
    left = iter(enumerate(items))

    async def take() -> None:
        """Process one item after the other until none is left."""
        for number, item in left:
            results[number] = await work(item)
            await asyncio.sleep(0)

    await asyncio.gather(*(take() for _ in range(min(AT_ONCE, len(items)))))
    return [results[number] for number in range(len(items))]


def deadline_of(timeout_ms: int) -> Deadline:
    """Return the deadline of a change from the timeout in its request."""
    return deadline_in(min(max(timeout_ms, TIMEOUT_MS_MIN), TIMEOUT_MS_MAX))
