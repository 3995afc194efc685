"""Who leads which partition, as far as answers have said it. A hint: whoever is asked forwards what others lead."""

from collections import OrderedDict
from typing import Final

from raftlog.types import TopicPartition

PARTITIONS_MAX: Final = 10_000
"""Partitions that are remembered; past it the one that was used longest ago is forgotten."""


class Leaders:
    """Addresses by partition, bounded."""

    def __init__(self, partitions_max: int = PARTITIONS_MAX) -> None:
        self._partitions_max = partitions_max
        self._addresses: OrderedDict[TopicPartition, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._addresses)

    def address_of(self, place: TopicPartition) -> str | None:
        """Where the next request goes first."""
        address = self._addresses.get(place)
        if address is not None:
            self._addresses.move_to_end(place)
        return address

    def learn(self, place: TopicPartition, address: str) -> None:
        """An answer named this leader."""
        self._addresses[place] = address
        self._addresses.move_to_end(place)
        if len(self._addresses) > self._partitions_max:
            self._addresses.popitem(last=False)

    def forget(self, place: TopicPartition, address: str) -> None:
        """It does not lead, or cannot be reached; what was learned since stays."""
        if self._addresses.get(place) == address:
            del self._addresses[place]
