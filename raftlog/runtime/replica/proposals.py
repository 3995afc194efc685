"""Proposals of one group that have no outcome yet, and their outcomes.

    done      its last entry is committed with its term, and delivered if this replica leads
    failed    another entry was committed in the place of its first one
    unknown   neither can be determined any more, or the replica is closed

Until then a proposal is open; its caller may stop waiting at any time. Owned by a group."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from raftlog.errors import ChangeRefused, InvalidArgument, NotLeader, OutcomeUnknown, Overloaded, RaftlogError
from raftlog.raft import Accepted, Ready, RefusalReason, RefusedProposal, ReplicaId
from raftlog.runtime.histogram import Histogram, stopwatch
from raftlog.runtime.log.group_log import GroupLog
from raftlog.types import Index, Offset, Term

_T = TypeVar("_T")
_OPEN_CHECKED: Final = 10_000
"""Number of open proposals above which those without a waiting caller are removed."""


class Committed(NamedTuple):
    """Committed proposal: entries `first_index` … `last_index`, records `base_offset` … `next_offset − 1`."""

    term: Term
    first_index: Index
    last_index: Index
    base_offset: Offset
    next_offset: Offset


def return_unchanged(committed: Committed) -> Committed:
    """Return the outcome itself, as the answer to a proposal."""
    return committed


class _Open(NamedTuple):
    """Proposal without an outcome; the result of `future` will be `answer(outcome)`."""

    last_index: Index
    accepted: Accepted
    began: float
    future: "asyncio.Future[Any]"
    answer: Callable[[Committed], object]


class Proposals:
    """Proposals of one replica that have no outcome yet."""

    def __init__(self, name: str, log: GroupLog, commit_times: Histogram) -> None:
        self._name, self._log, self._commit_times = name, log, commit_times
        self._open: deque[_Open] = deque()
        """Open proposals, ascending by last index."""

    def add(self, accepted: Accepted, future: "asyncio.Future[_T]", answer: Callable[[Committed], _T]) -> None:
        """Add a proposal: `future` gets the outcome of accepted entries."""
        waiting = self._open
        is_in_order = not waiting or waiting[-1].last_index < accepted.first_index
        waiting.append(_Open(accepted.last_index, accepted, stopwatch(), future, answer))
        if not is_in_order or len(waiting) > _OPEN_CHECKED:
            left = [each for each in waiting if not each.future.done()]
            self._open = deque(sorted(left, key=lambda each: each.last_index))

    def settle(self, applied: Index, leader: ReplicaId | None) -> None:
        """Complete the futures of entries up to `applied`, which are delivered or were committed by another leader."""
        waiting = self._open
        next_index, next_offset = Index(0), Offset(0)
        while waiting and waiting[0].last_index <= applied:
            last, accepted, began, future, answer = waiting.popleft()
            if future.done():
                continue
            base_offset = next_offset if accepted.first_index == next_index else None
            outcome = self._outcome(accepted, base_offset, leader)
            if isinstance(outcome, Committed):
                next_index, next_offset = Index(last + 1), outcome.next_offset
                self._commit_times.observe_since(began)
                future.set_result(answer(outcome))
            else:
                future.set_exception(outcome)

    def end(self, reason: RaftlogError) -> None:
        """Fail all open proposals with `OutcomeUnknown`."""
        for each in self._open:
            if not each.future.done():
                each.future.set_exception(OutcomeUnknown(f"{self._name}: {reason}"))
        self._open.clear()

    def _outcome(
        self, accepted: Accepted, base_offset: Offset | None, leader: ReplicaId | None
    ) -> Committed | RaftlogError:
        """Return the outcome of delivered entries; `base_offset` is looked up unless it is known."""
        term, first, last = accepted
        log = self._log
        if first <= log.boundary.index:
            return OutcomeUnknown(f"{self._name}: entry {first} was trimmed before its outcome was known")
        if log.term_at(last) == term:
            begin = log.offset_of(first) if base_offset is None else base_offset
            return Committed(term, first, last, begin, log.offset_of(Index(last + 1)))
        if log.term_at(first) == term:
            return OutcomeUnknown(f"{self._name}: only the beginning of entries {first}–{last} was kept")
        return NotLeader(f"{self._name}: another leader's entry took its place", leader)


def error_of(name: str, refused: RefusedProposal) -> RaftlogError:
    """Return the error for a proposal that the core of the group `name` refused."""
    leads = f"; {refused.leader} leads" if refused.leader else ""
    text = f"{name}: {refused.reason.value}{leads}{': ' + refused.detail if refused.detail else ''}"
    if refused.reason in (RefusalReason.NOT_LEADER, RefusalReason.TRANSFERRING):
        return NotLeader(text, refused.leader)
    if refused.reason in (RefusalReason.OVERLOADED, RefusalReason.NOT_CAUGHT_UP):
        return Overloaded(text)
    if refused.reason in (RefusalReason.INVALID_CHANGE, RefusalReason.NO_SUCH_VOTER):
        return InvalidArgument(text)
    return ChangeRefused(text)


def settle_reads(name: str, ready: Ready, leader: ReplicaId | None) -> None:
    """Complete the futures of a Ready's reads, except those for which no caller waits any more."""
    for request, index in ready.reads:
        future = _future_of(request)
        if not future.done():
            future.set_result(index)
    for request in ready.reads_failed:
        future = _future_of(request)
        if not future.done():
            future.set_exception(NotLeader(f"{name}: the read was not served; retry", leader))


def _future_of(request: object) -> "asyncio.Future[Index]":
    """Return the future with which a read was requested."""
    assert isinstance(request, asyncio.Future), f"a read was requested with {request!r}"
    return request
