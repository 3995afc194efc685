"""Trims of unknown outcome: the offset of each partition below which they may have deleted records.

A trim of unknown outcome may happen at any time, also much later. One that definitely failed never happens, and the log
start after a successful one is known. Called by `records` and `record_status`."""

from jepsen.checkers.history import INFO, Op, Trim
from raftlog.types import Offset, TopicPartition


class UnknownTrims:
    """Trims of a history whose outcome is unknown, collected from its operations."""

    def __init__(self) -> None:
        self._open: dict[int, Trim] = {}
        self._starts: dict[TopicPartition, Offset] = {}

    def on_invocation(self, op: Op) -> None:
        """Record the trim that a process begins; other operations are ignored."""
        if isinstance(op.payload, Trim):
            self._open[op.process] = op.payload

    def on_completion(self, op: Op) -> None:
        """Forget a trim whose outcome is known; record the start of one whose outcome is unknown."""
        if op.type == INFO:
            self.on_crash(op.process)
        else:
            self._open.pop(op.process, None)

    def on_crash(self, process: int) -> None:
        """Record as unknown the trim that the process has under way, if any."""
        trim = self._open.pop(process, None)
        if trim is not None:
            self._starts[trim.partition] = max(self._starts.get(trim.partition, Offset(0)), trim.start)

    def start_max(self, partition: TopicPartition) -> Offset:
        """Return the highest start that any of the trims requested; 0 without one."""
        under_way = (trim.start for trim in self._open.values() if trim.partition == partition)
        return max(self._starts.get(partition, Offset(0)), *under_way, Offset(0))
