"""Interface of the system under test."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from jepsen.nemeses.victims import Victims


class SystemFailed(Exception):
    """The system did not start, or the harness failed, so there is no result to check."""


class System(Victims, Protocol):
    """Nodes that serve the HTTP API; node ids from 1. All calls block, and come from one thread."""

    def start(self) -> None:
        """Start all nodes and wait until they serve. Raises `SystemFailed`."""

    def close(self) -> None:
        """End all processes. May be called at any time, and repeatedly."""

    @property
    def client_addresses(self) -> Mapping[int, str]:
        """Return the addresses for clients, whose connections to nodes can be cut."""

    @property
    def kafka_addresses(self) -> Mapping[int, str]:
        """Return the addresses for clients with Kafka's protocol; empty if the nodes do not serve it."""

    def unexpected_exits(self) -> list[str]:
        """Return the nodes that exited unexpectedly since the last call, with their last output."""

    def recover(self, timeout_s: float) -> list[str]:
        """Start nodes that are down, and wait until all serve; return descriptions of those that do not."""

    def stop(self) -> list[str]:
        """Stop all nodes in an orderly way; return descriptions of problems."""

    def data_dirs(self) -> Mapping[int, Path]:
        """Return the data directories by node id; empty when there are none to check."""

    def logs(self) -> Mapping[int, str]:
        """Return the log output of each node."""
