"""Base of the background tasks of a process."""

import asyncio
from abc import ABC, abstractmethod
from typing import ClassVar

from raftlog.partitions.node.node import Node


class BackgroundLoop(ABC):
    """Base of a task that runs from `start` to `stop`; its failure ends the process."""

    purpose: ClassVar[str]
    """Name of the task in the log of a failure."""
    _node: Node
    _task: "asyncio.Task[None] | None" = None

    def start(self) -> None:
        """Start the loop; an error that ends it ends the node."""
        self._task = self._node.run_essential_task(self._run(), self.purpose)

    async def stop(self) -> None:
        """Cancel the loop, and wait for its end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    @abstractmethod
    async def _run(self) -> None:
        """Run the task until it is cancelled."""
