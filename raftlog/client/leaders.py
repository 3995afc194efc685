"""Cache of partition leaders and group coordinators that answers have named.

Entries are hints: a broker that does not lead forwards the request."""

from collections import OrderedDict
from typing import Final, NamedTuple, TypeAlias

from raftlog.types import TopicPartition


class GroupTarget(NamedTuple):
    """Consumer group, whose coordinator is the leader of its partition of committed offsets."""

    group: str


class TransactionTarget(NamedTuple):
    """Transactional id, whose coordinator is the leader of its partition of transactions."""

    transactional_id: str
    kind: str = "transaction"
    """Distinguishes the target from a group of the same name."""


LeaderTarget: TypeAlias = TopicPartition | GroupTarget | TransactionTarget

TARGETS_MAX: Final = 10_000
"""Bound on the entries; above it the least recently used one is removed."""


class LeaderCache:
    """Bounded cache of addresses by partition and by group."""

    def __init__(self, targets_max: int = TARGETS_MAX) -> None:
        self._targets_max = targets_max
        self._addresses: OrderedDict[LeaderTarget, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._addresses)

    def address_of(self, target: LeaderTarget) -> str | None:
        """Return the address of the known leader or coordinator of `target`, or None."""
        address = self._addresses.get(target)
        if address is not None:
            self._addresses.move_to_end(target)
        return address

    def learn(self, target: LeaderTarget, address: str) -> None:
        """Store the leader that an answer named."""
        self._addresses[target] = address
        self._addresses.move_to_end(target)
        if len(self._addresses) > self._targets_max:
            self._addresses.popitem(last=False)

    def forget(self, target: LeaderTarget, address: str) -> None:
        """Remove an address that does not lead or cannot be reached; a newer entry stays."""
        if self._addresses.get(target) == address:
            del self._addresses[target]
