"""Trace of a run: a digest of all its steps, and the last events as a timeline for people.

Two runs with equal digests ran the same callbacks of the same nodes at the same times, and noted the same events.
The digest contains nothing that depends on addresses, hash seeds or real time.
"""

from collections import deque
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

TIMELINE_EVENTS_MAX: Final = 2000
FOLD_BYTES: Final = 1 << 16
"""Size, in bytes, of the pieces that are added to the digest."""

_STEP = Struct("<QiI").pack
_NUMBER = Struct("<q").pack
HARNESS: Final = -1
"""Node number of events that belong to no node."""


class Event(NamedTuple):
    """Event in the timeline."""

    time_ns: int
    node: str
    text: str

    def __str__(self) -> str:
        return f"{self.time_ns / 1e9:12.6f} s  {self.node:<8} {self.text}"


class Trace:
    """Trace of a run: a digest of all steps, and the last `events_max` notes (`events`).

    `steps` counts callbacks."""

    def __init__(self, events_max: int = TIMELINE_EVENTS_MAX) -> None:
        self.steps = 0
        self.events: deque[Event] = deque(maxlen=events_max)
        self._hash = blake2b(digest_size=16)
        self._pending = bytearray()

    def record_step(self, time_ns: int, node: int, label: int) -> None:
        """Record that a callback runs; `label` is a checksum of its name."""
        self.steps += 1
        pending = self._pending
        pending += _STEP(time_ns, node, label)
        if len(pending) >= FOLD_BYTES:
            self._hash_pending()

    def record_number(self, number: int) -> None:
        """Add a fact about the present step to the digest, as a number: a size, a node, a term."""
        self._pending += _NUMBER(number)

    def note(self, time_ns: int, node: str, text: str) -> None:
        """Record an event for the timeline, and add it to the digest."""
        self.events.append(Event(time_ns, node, text))
        self._pending += f"{time_ns} {node} {text}\n".encode()

    def digest(self) -> str:
        """Return the hexadecimal digest of the run so far."""
        self._hash_pending()
        return self._hash.hexdigest()

    def timeline(self, last: int | None = None) -> str:
        """Return the last events, one a line, oldest first."""
        events = list(self.events)
        return "\n".join(map(str, events if last is None else events[max(0, len(events) - last) :]))

    def _hash_pending(self) -> None:
        """Add the pending bytes to the digest."""
        self._hash.update(self._pending)
        self._pending.clear()
