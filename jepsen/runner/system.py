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
        """Until all nodes serve. Raises `SystemFailed`."""

    def close(self) -> None:
        """End whatever runs. May be called at any time, also twice."""

    @property
    def client_addresses(self) -> Mapping[int, str]:
        """`addresses` as clients have them, who may be cut off from nodes."""

    def deaths(self) -> list[str]:
        """Nodes that ended by themselves since the last call, with what they said at the end."""

    def recover(self, timeout_s: float) -> list[str]:
        """Start what is down, and wait until all serve; what does not, and why."""

    def stop(self) -> list[str]:
        """End all nodes in an orderly way; what went wrong."""

    def data_dirs(self) -> Mapping[int, Path]:
        """Return the data directories by node id; empty when there are none to check."""

    def logs(self) -> Mapping[int, str]:
        """Return the log output of each node."""
