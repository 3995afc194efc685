"""Link: one direction between two nodes, with delay, loss and cuts.

All random numbers come from the network's generator, in the order in which messages are sent.
"""

from random import Random
from typing import Final, NamedTuple

MICROSECOND_NS: Final = 1_000
MILLISECOND_NS: Final = 1_000_000
SECOND_NS: Final = 1_000_000_000


class LinkConditions(NamedTuple):
    """Conditions of a link. Probabilities are per message; delays are drawn evenly between their bounds."""

    delay_min_ns: int = 100 * MICROSECOND_NS
    delay_max_ns: int = 1 * MILLISECOND_NS
    loss: float = 0.0
    """Probability that a datagram is lost; a stream retransmits and is late by `retransmit_ns`."""
    duplicate: float = 0.0
    """Probability that a datagram arrives a second time, with a delay of its own."""
    reorder: float = 0.0
    """Probability that a datagram takes up to `reorder_ns` longer, so that later ones overtake it."""
    reorder_ns: int = 20 * MILLISECOND_NS
    retransmit_ns: int = 200 * MILLISECOND_NS
    bytes_per_s: int | None = None
    """Bandwidth; `None` is unlimited."""
    queue_bytes_max: int = 1 << 20
    """Bytes waiting for the bandwidth above which datagrams are dropped. Streams wait."""


RETRANSMISSIONS_MAX: Final = 6
MESSAGE_BYTES: Final = 200
"""Size of a message that is not bytes, if its sender gives none."""


class Link:
    """Link in one direction. `cuts` counts its cuts; messages in flight at a cut do not arrive."""

    def __init__(self, random: Random, conditions: LinkConditions) -> None:
        self.conditions = conditions
        self.is_cut = False
        self.cuts = 0
        self._random = random
        self._free_ns = 0

    def cut(self) -> None:
        """Cut the link; messages in flight are lost."""
        self.is_cut = True
        self.cuts += 1

    def ticket(self) -> int:
        """Return the number of cuts so far, or -1 while the link is cut.

        `passes` compares this ticket of a message with the cuts at the message's arrival."""
        return -1 if self.is_cut else self.cuts

    def passes(self, ticket: int) -> bool:
        """Return whether the link has not been cut since the message with this ticket was sent."""
        return not self.is_cut and self.cuts == ticket

    def delay_ns(self) -> int:
        """Return a random delay of a message, in nanoseconds."""
        return self._random.randint(self.conditions.delay_min_ns, self.conditions.delay_max_ns)

    def is_lost(self) -> bool:
        """Return at random whether a datagram is lost."""
        return self._random.random() < self.conditions.loss

    def is_duplicated(self) -> bool:
        """Return at random whether a datagram arrives twice."""
        return self._random.random() < self.conditions.duplicate

    def reorder_delay_ns(self) -> int:
        """Return an additional delay of a datagram, in nanoseconds; mostly 0."""
        late = self._random.random() < self.conditions.reorder
        return self._random.randint(0, self.conditions.reorder_ns) if late else 0

    def retransmit_delay_ns(self) -> int:
        """Return the additional delay of a stream's message by losses and retransmissions, in nanoseconds."""
        losses = 0
        while losses < RETRANSMISSIONS_MAX and self.is_lost():
            losses += 1
        return losses * self.conditions.retransmit_ns

    def sent_ns(self, now_ns: int, size_bytes: int) -> int:
        """Return the time at which the last byte of a message is sent, after all earlier messages."""
        if self.conditions.bytes_per_s is None:
            return now_ns
        start_ns = max(now_ns, self._free_ns)
        self._free_ns = start_ns + size_bytes * SECOND_NS // self.conditions.bytes_per_s
        return self._free_ns

    def queued_bytes(self, now_ns: int) -> int:
        """Return the bytes that wait for the bandwidth."""
        if self.conditions.bytes_per_s is None:
            return 0
        return max(0, self._free_ns - now_ns) * self.conditions.bytes_per_s // SECOND_NS


def size_of(message: object) -> int:
    """Return the size of a message in bytes; `MESSAGE_BYTES` if it is not bytes."""
    return len(message) if isinstance(message, bytes | bytearray | memoryview) else MESSAGE_BYTES


def freeze(message: object) -> object:
    """Return a copy of a buffer that the sender may reuse, as a kernel does; other messages unchanged."""
    return bytes(message) if isinstance(message, bytearray | memoryview) else message
