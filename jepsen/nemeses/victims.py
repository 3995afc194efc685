"""Interface of faults to the nodes of a system. Effects are described as observed from outside."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from jepsen.clocks import NodeClock
from jepsen.disk import NodeDisk
from jepsen.nemeses.fault import Link
from raftlog.testing import NetworkConditions
from raftlog.types import TopicPartition


class Victims(Protocol):
    """System whose nodes are subjected to faults, called from one thread.

    `disks` and `clocks` are empty if not simulated."""

    @property
    def addresses(self) -> Mapping[int, str]:
        """HTTP addresses by node id, of all nodes that belong to the system, up or down; an address never changes."""

    def is_up(self, node: int) -> bool:
        """Return whether the node's process runs."""
        ...

    def is_serving(self, node: int) -> bool:
        """Return whether the node is up and ready to serve requests."""
        ...

    def is_available(self) -> bool:
        """Return whether all nodes are up and every partition has a leader."""

    def is_healthy(self) -> bool:
        """Return whether all replicas are complete and up to date, so that one may be damaged."""

    def kill(self, node: int) -> str:
        """Kill the node with SIGKILL; return the observed effect."""
        ...

    def terminate(self, node: int) -> str:
        """Send SIGTERM to the node without waiting; return the observed effect."""
        ...

    def launch(self, node: int) -> None:
        """Launch the node without waiting until it serves; do nothing if it is up."""
        ...

    def expect_end(self, node: int) -> None:
        """Accept that the node exits on its own until it is launched again."""

    def pause(self, node: int) -> str:
        """Pause the node; return the observed effect, empty if it still runs."""

    def resume(self, node: int) -> None:
        """Continue the paused node."""
        ...

    def change(self, shape: str, node: int, place: TopicPartition) -> str:
        """Add or decommission a node, or move a partition or its leader; return a description, empty for no change."""

    def leader(self, place: TopicPartition) -> int | None:
        """Return the node that leads the partition; None if unknown."""
        ...

    def cut(self, rpc: Sequence[Link], gossip: Sequence[Link]) -> None:
        """Cut these links and restore all others."""

    def set_conditions(self, links: Sequence[Link], conditions: NetworkConditions) -> None:
        """Set the conditions of these links; `NetworkConditions()` removes them."""

    def reset_connections(self, links: Sequence[Link]) -> int:
        """Reset the connections on these links, as a middlebox does, losing bytes in flight; return their number."""

    def cut_clients(self, nodes: Sequence[int], *, answers_only: bool) -> str:
        """Cut these nodes from their clients, in both directions or only answers, and restore all others.

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
        """Return the difference of the node's time of day to this process's, in seconds; None if it is unobservable."""


class UnsupportedFault(Exception):
    """The system cannot have a requested kind of fault, so the test cannot run."""


class WithoutFaults:
    """Base of systems without simulated disks, clocks, links or client connections."""

    def set_conditions(self, links: Sequence[Link], conditions: NetworkConditions) -> None:
        """Raise `UnsupportedFault`."""
        raise UnsupportedFault("the links between these nodes cannot be changed")

    def reset_connections(self, links: Sequence[Link]) -> int:
        """Raise `UnsupportedFault`."""
        raise UnsupportedFault("connections between these nodes cannot be reset")

    def cut_clients(self, nodes: Sequence[int], *, answers_only: bool) -> str:
        """Raise `UnsupportedFault`."""
        raise UnsupportedFault("clients cannot be cut off from these nodes")

    def link_effects(self, links: Sequence[Link]) -> str:
        """Return an empty description: no link has conditions."""
        return ""

    def expect_end(self, node: int) -> None:
        """Do nothing: no fault makes a node exit."""

    @property
    def kafka_addresses(self) -> Mapping[int, str]:
        """Return none: the nodes do not serve Kafka's protocol."""
        return {}

    @property
    def disks(self) -> Mapping[int, NodeDisk]:
        return {}

    @property
    def clocks(self) -> Mapping[int, NodeClock]:
        return {}

    def clock_error_s(self, node: int) -> float | None:
        """Return None: the clocks cannot be observed."""
        return None
