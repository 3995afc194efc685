"""A log entry as Raft sees it, and its identity.

The content of an entry is opaque: `payload` is any object of the driver, in practice the bytes of a record batch. The
core reads only configurations, so the driver decodes those."""

from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from raftlog.raft.configuration import Configuration
from raftlog.types import Index, Term

TERM_MAX = Term(2**31 - 1)
"""Highest term: Kafka's `partitionLeaderEpoch` is an int32."""
TERM_TAKEN_MAX = Term(TERM_MAX - 2**20)
"""Highest term that a replica accepts from a message unchecked: in term `TERM_MAX` no replica can campaign any more.

A Raft group whose term is above it can still have a million elections."""
TERM_STEP_MAX = 1024
"""Maximum difference between the term of a message, if it is above `TERM_TAKEN_MAX`, and the receiver's term."""


class EntryKind(IntEnum):
    """Kind of an entry, as far as the core distinguishes kinds; all other control batches are DATA to it."""

    DATA = 0
    NO_OP = 1
    CONFIGURATION = 2


class EntryId(NamedTuple):
    """Index and term: in Raft they identify an entry and everything before it."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    term: Term

    def __str__(self) -> str:
        return f"{self.index}@{self.term}"


class Entry(NamedTuple):
    """One entry of a log.

    `configuration` is set in an entry of kind CONFIGURATION, with the entry's index. It is also set in the first entry
    of a log, which holds the founding members of the Raft group."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    term: Term
    kind: EntryKind
    size_bytes: int
    payload: Any
    configuration: Configuration | None = None


class Proposal(NamedTuple):
    """Data to append: an opaque payload and the bytes that it takes in a message."""

    payload: Any
    size_bytes: int


class ControlPayloads(Protocol):
    """Factory of payloads for entries that the core appends; injected, because the core has no bytes and no clock."""

    def no_op(self) -> Proposal:
        """Return the proposal of a no-op."""
        ...

    def configuration(self, configuration: Configuration, replaces_index: Index) -> Proposal:
        """Return the proposal of a configuration, which replaces the one at `replaces_index`."""
        ...


class EmptyPayloads:
    """Factory of payloads without bytes, for drivers that keep entries as objects."""

    def no_op(self) -> Proposal:
        """Return a proposal without payload."""
        return Proposal(None, 0)

    def configuration(self, configuration: Configuration, replaces_index: Index) -> Proposal:
        """Return a proposal without payload."""
        return Proposal(None, 0)


ORIGIN = EntryId(Index(0), Term(0))
"""Id of the position before the first entry of every log."""


def is_at_least_as_up_to_date(log: EntryId, other: EntryId) -> bool:
    """Return whether a log that ends at `log` is at least as up to date as one that ends at `other` (thesis 3.6.1)."""
    return (log.term, log.index) >= (other.term, other.index)


def is_more_up_to_date(log: EntryId, other: EntryId) -> bool:
    """Return whether a log that ends at `log` is more up to date than one that ends at `other` (thesis 3.6.1)."""
    return (log.term, log.index) > (other.term, other.index)
