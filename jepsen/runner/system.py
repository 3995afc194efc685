"""Interface of the system under test."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from jepsen.nemeses.victims import Victims


class SystemFailed(Exception):
    """The system could not even be started, or the machinery around it broke: there is nothing to check."""


class System(Victims, Protocol):
    """Nodes that serve the HTTP API; node ids from 1. All calls block, and come from one thread."""

    def start(self) -> None:
        """Start all nodes and wait until they serve. Raises `SystemFailed`."""

    def close(self) -> None:
        """End all processes. May be called at any time, also twice."""

    @property
    def client_addresses(self) -> Mapping[int, str]:
        """Addresses for clients, which may be cut off from nodes."""

    @property
    def kafka_addresses(self) -> Mapping[int, str]:
        """Addresses for clients that speak Kafka's protocol; empty where the nodes do not."""

    def deaths(self) -> list[str]:
        """Return the nodes that ended by themselves since the last call, with their last output."""

    def recover(self, timeout_s: float) -> list[str]:
        """Start nodes that are down, and wait until all serve; return those that do not, with the reason."""

    def stop(self) -> list[str]:
        """End all nodes in an orderly way; return the problems."""

    def data_dirs(self) -> Mapping[int, Path]:
        """Return the data directories by node id; empty when there are none to check."""

    def logs(self) -> Mapping[int, str]:
        """Return the log output of each node."""
