"""Who leads which partition and coordinates which group, as far as answers have said it. A hint: whoever is asked
forwards what others lead."""

from collections import OrderedDict
from typing import Final, NamedTuple, TypeAlias

from raftlog.types import TopicPartition


class GroupPlace(NamedTuple):
    """A consumer group; who leads its partition of committed offsets is its coordinator."""

    group: str


Place: TypeAlias = TopicPartition | GroupPlace

PLACES_MAX: Final = 10_000
"""How many are remembered; past it the one that was used longest ago is forgotten."""


class LeaderCache:
    """Addresses by partition and by group, bounded."""

    def __init__(self, places_max: int = PLACES_MAX) -> None:
        self._places_max = places_max
        self._addresses: OrderedDict[Place, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._addresses)

    def address_of(self, place: Place) -> str | None:
        """Where the next request goes first."""
        address = self._addresses.get(place)
        if address is not None:
            self._addresses.move_to_end(place)
        return address

    def learn(self, place: Place, address: str) -> None:
        """An answer named this leader."""
        self._addresses[place] = address
        self._addresses.move_to_end(place)
        if len(self._addresses) > self._places_max:
            self._addresses.popitem(last=False)

    def forget(self, place: Place, address: str) -> None:
        """It does not lead, or cannot be reached; what was learned since stays."""
        if self._addresses.get(place) == address:
            del self._addresses[place]
