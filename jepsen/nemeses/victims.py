"""Operations on the nodes of a system. The effect of a fault is described in a few words, as observed from outside."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from jepsen.clocks import NodeClock
from jepsen.disk import NodeDisk
from jepsen.nemeses.fault import Link
from raftlog.testing import NetworkConditions
from raftlog.types import TopicPartition


class Victims(Protocol):
    """All calls come from one thread. A system without disks, clocks or links of this kind has none to be hurt."""

    @property
    def addresses(self) -> Mapping[int, str]:
        """HTTP addresses by node id, of those that belong to the system, down or not; they stay the same."""

    def is_up(self, node: int) -> bool: ...
    def is_serving(self, node: int) -> bool: ...
    def is_whole(self) -> bool:
        """Return whether all nodes are up and every partition has a leader."""

    def is_healthy(self) -> bool:
        """Return whether all replicas are complete and up to date, so that one may be damaged."""

    def kill(self, node: int) -> str: ...
    def terminate(self, node: int) -> str: ...
    def launch(self, node: int) -> None: ...
    def expect_end(self, node: int) -> None:
        """Allow the node to end by itself until it is launched again."""

    def pause(self, node: int) -> str:
        """Pause the node; return the observation, empty if it still runs."""

    def resume(self, node: int) -> None: ...
    def change(self, shape: str, node: int, place: TopicPartition) -> str:
        """Add or decommission a node, or move a partition or its leader; return the observation, empty if unchanged."""

    def leader(self, place: TopicPartition) -> int | None: ...

    def cut(self, rpc: Sequence[Link], gossip: Sequence[Link]) -> None:
        """Cut exactly these links."""

    def set_conditions(self, links: Sequence[Link], conditions: NetworkConditions) -> None:
        """Set the conditions of these links; `NetworkConditions()` removes them."""

    def reset_connections(self, links: Sequence[Link]) -> int:
        """Reset the connections, as a middlebox does, losing bytes in flight; return the number of connections."""

    def cut_clients(self, nodes: Sequence[int], *, answers_only: bool) -> str:
        """Cut exactly these nodes from their clients, in both directions or for answers only.

        Returns a description of the data dropped since the last call."""

    def link_effects(self, links: Sequence[Link]) -> str:
        """Return a description of the messages dropped or delayed on the links since the last call; empty for none."""

    @property
    def disks(self) -> Mapping[int, NodeDisk]: ...
    @property
    def clocks(self) -> Mapping[int, NodeClock]: ...
    def data_dirs(self) -> Mapping[int, Path]:
        """Return the data directory of each node that belongs to the system."""

    def clock_error_s(self, node: int) -> float | None:
        """Return the seconds by which the node's time of day differs from ours, seen from outside."""


class UnsupportedFault(Exception):
    """A fault was asked for that this system has nothing for: the test cannot be run."""


class WithoutFaults:
    """The part of a system that has nothing beneath its nodes, between them or before them that could be hurt."""

    def set_conditions(self, links: Sequence[Link], conditions: NetworkConditions) -> None:
        raise UnsupportedFault("the links between these nodes cannot be changed")

    def reset_connections(self, links: Sequence[Link]) -> int:
        raise UnsupportedFault("connections between these nodes cannot be reset")

    def cut_clients(self, nodes: Sequence[int], *, answers_only: bool) -> str:
        raise UnsupportedFault("clients cannot be cut off from these nodes")

    def link_effects(self, links: Sequence[Link]) -> str:
        return ""

    def expect_end(self, node: int) -> None:
        """Do nothing: no fault makes a node end by itself."""

    @property
    def kafka_addresses(self) -> Mapping[int, str]:
        """Return none: the nodes do not speak Kafka's protocol."""
        return {}

    @property
    def disks(self) -> Mapping[int, NodeDisk]:
        return {}

    @property
    def clocks(self) -> Mapping[int, NodeClock]:
        return {}

    def clock_error_s(self, node: int) -> float | None:
        return None
