"""A log entry as Raft sees it, and its identity.

What an entry holds is opaque: `payload` is whatever the driver wants back, in practice the bytes of a record batch.
Only configurations are read by the core, so the driver decodes those.
"""

from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from raftlog.raft.configuration import Configuration
from raftlog.types import Index, Term

TERM_MAX = Term(2**31 - 1)
"""Terms travel in Kafka's `partitionLeaderEpoch`, an int32."""
TERM_TAKEN_MAX = Term(TERM_MAX - 2**20)
"""Greatest term that a message can bring to a replica of a lower term: in the last term nobody could campaign again. A
group whose term is above it can still have a million elections."""
TERM_STEP_MAX = 1024
"""Above that, a message is taken when it is at most so many terms ahead of the replica's own."""


class EntryKind(IntEnum):
    """What the core must know about an entry. Rolls, trims and the like are data to it."""

    DATA = 0
    NO_OP = 1
    CONFIGURATION = 2


class EntryId(NamedTuple):
    """Index and term: in Raft they name an entry and everything before it."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    term: Term

    def __str__(self) -> str:
        return f"{self.index}@{self.term}"


class Entry(NamedTuple):
    """One entry. `configuration` is there when `kind` is CONFIGURATION, and its index is the entry's; also with a log's
    first entry, which says whom the group began with."""

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
    """Makes the payloads of entries that the core itself appends; handed in, for bytes and clocks are not its own."""

    def no_op(self) -> Proposal: ...

    def configuration(self, configuration: Configuration, replaces_index: Index) -> Proposal: ...


class EmptyPayloads:
    """Control entries without any bytes, for whoever keeps entries as objects."""

    def no_op(self) -> Proposal:
        return Proposal(None, 0)

    def configuration(self, configuration: Configuration, replaces_index: Index) -> Proposal:
        return Proposal(None, 0)


ORIGIN = EntryId(Index(0), Term(0))
"""What stands before the first entry of every log."""


def is_as_fresh(log: EntryId, other: EntryId) -> bool:
    """Whether a log that ends at `log` is at least as up to date as one that ends at `other` (thesis 3.6.1)."""
    return (log.term, log.index) >= (other.term, other.index)


def is_fresher(log: EntryId, other: EntryId) -> bool:
    return (log.term, log.index) > (other.term, other.index)
