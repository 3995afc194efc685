"""Cache of partition leaders and group coordinators that answers have named.

Entries are hints: a broker that does not lead forwards the request."""

from collections import OrderedDict
from typing import Final, NamedTuple, TypeAlias

from raftlog.types import TopicPartition


class GroupPlace(NamedTuple):
    """Consumer group, whose coordinator is the leader of its partition of committed offsets."""

    group: str


Place: TypeAlias = TopicPartition | GroupPlace

PLACES_MAX: Final = 10_000
"""Bound on the entries; above it the least recently used one is removed."""


class LeaderCache:
    """Bounded cache of addresses by partition and by group."""

    def __init__(self, places_max: int = PLACES_MAX) -> None:
        self._places_max = places_max
        self._addresses: OrderedDict[Place, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._addresses)

    def address_of(self, place: Place) -> str | None:
        """Return the address of the known leader or coordinator of `place`, or None."""
        address = self._addresses.get(place)
        if address is not None:
            self._addresses.move_to_end(place)
        return address

    def learn(self, place: Place, address: str) -> None:
        """Store the leader that an answer named."""
        self._addresses[place] = address
        self._addresses.move_to_end(place)
        if len(self._addresses) > self._places_max:
            self._addresses.popitem(last=False)

    def forget(self, place: Place, address: str) -> None:
        """Remove an address that does not lead or cannot be reached; a newer entry stays."""
        if self._addresses.get(place) == address:
            del self._addresses[place]
