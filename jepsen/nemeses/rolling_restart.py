"""Rolling restart: one node after another, each once the cluster is available.

`nemesis` steps it; nothing here waits.
"""

from collections.abc import Sequence

from jepsen.nemeses.fault import Fault
from jepsen.nemeses.victims import Victims


class RollingRestart:
    """State of a rolling restart: the restarting node, the remaining nodes, and the observed effects."""

    def __init__(self, fault: Fault, begin_s: float, until_s: float, victims: Victims) -> None:
        """Prepare a rolling restart of the fault's nodes, in order, until `until_s`."""
        self.fault, self.begin_s, self.until_s = fault, begin_s, until_s
        self._victims = victims
        self._left = list(fault.nodes)
        self._node: int | None = None
        self._is_launched = False
        self.proofs: list[str] = []

    @property
    def is_between(self) -> bool:
        """Whether no node is down because of this restart."""
        return self._node is None

    @property
    def has_ended(self) -> bool:
        """Whether no node is being restarted and none is left."""
        return self.is_between and not self._left

    def stop(self) -> None:
        """Restart no further nodes."""
        self._left.clear()

    def remove_killed(self, nodes: Sequence[int]) -> None:
        """Record nodes that another fault has killed; that fault starts them again."""
        if self._node in nodes:
            self._node = None

    def step(self) -> None:
        """Continue the restart; the next node follows only when the cluster is available."""
        node = self._node
        if node is None:
            if self._left and self._victims.is_available():
                self._terminate(self._left.pop(0))
        elif not self._is_launched:
            if not self._victims.is_up(node):
                self._victims.launch(node)
                self._is_launched = True
        elif self._victims.is_serving(node) or node not in self._victims.addresses:
            self._node = None

    def _terminate(self, node: int) -> None:
        """Send SIGTERM to a node and record the effect.

        Skipped are nodes that are down or have left the cluster, and those with a full disk, which cannot start."""
        if not self._victims.is_up(node) or node not in self._victims.addresses:
            return
        disk = self._victims.disks.get(node)
        if disk is None or not disk.is_full:
            self._node, self._is_launched = node, False
            self.proofs.append(self._victims.terminate(node))
