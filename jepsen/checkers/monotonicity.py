"""Checkers of numbers that never fall: log start, end, committed offsets, and a replica's high watermark.

- `start-went-back`, `end-went-back`: a process received a smaller log start or end than before. A process
  queries one server, or several that give this guarantee together. Linearizable lists are checked across processes by
  `OffsetOrder`.
- `committed-went-back`: a committed offset was read below one that was acknowledged or read before the read began.
  Groups with commits of members or with resets are excepted (`member_commits` checks them).
- `phantom-commit`: a read returned an offset that was never committed, or whose commits all definitely failed.
- `trim-undone`: a linearizable list returned a log start below that of an earlier list or of an answered deletion of
  records; or the answer to a deletion has a log start below the requested one.

`MonotonicCheck` applies the same rule to numbers outside of a history; the simulator calls it after every step.
"""

from collections.abc import Hashable
from typing import ClassVar

from jepsen.checkers.checker import Anomaly, AnomalyKind, Checker, Findings
from jepsen.checkers.history import (
    COMMIT,
    COMMITTED,
    FAIL,
    HANDLE,
    LIST,
    OK,
    TRIM,
    GroupOffsets,
    Handle,
    Kind,
    ListOffsets,
    Op,
    Trim,
)
from raftlog.types import Offset, TopicPartition


class MonotonicCheck:
    """Checker of one number per key, which must never fall."""

    def __init__(self, kind: AnomalyKind = "end-went-back") -> None:
        self._kind: AnomalyKind = kind
        self._highest: dict[Hashable, int] = {}

    def observe(self, key: Hashable, number: int) -> Anomaly | None:
        """Return the anomaly if the number is below one that was observed for the key, else None."""
        highest = self._highest.get(key, number)
        if number < highest:
            return Anomaly(self._kind, f"{key} went back from {highest} to {number}")
        self._highest[key] = number
        return None

    def forget(self, key: Hashable) -> None:
        """Reset the key, as for a replica with a wiped disk."""
        self._highest.pop(key, None)


class ListedOffsets(Checker):
    """Checker of the log starts and ends returned to each process: neither of a partition falls."""

    completions: ClassVar[frozenset[Kind]] = frozenset((LIST,))

    def __init__(self, findings: Findings | None = None) -> None:
        super().__init__(findings)
        self._starts: dict[tuple[int, TopicPartition], tuple[Offset, Op]] = {}
        self._ends: dict[tuple[int, TopicPartition], tuple[Offset, Op]] = {}

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Compare the listed start and end of each partition with those that the process received before."""
        if op.type != OK:
            return
        assert isinstance(op.payload, ListOffsets), op
        for partition, start, end in op.payload.ranges:
            key = (op.process, partition)
            self._observe("start-went-back", self._starts, key, start, op)
            self._observe("end-went-back", self._ends, key, end, op)

    def _observe(
        self,
        kind: AnomalyKind,
        highest: dict[tuple[int, TopicPartition], tuple[Offset, Op]],
        key: tuple[int, TopicPartition],
        offset: Offset,
        op: Op,
    ) -> None:
        """Report an offset below the highest one that the process received before; otherwise record it as the highest.

        `key` names the process and the partition."""
        before = highest.get(key)
        if before is not None and offset < before[0]:
            word = "start" if kind == "start-went-back" else "end"
            text = f"process {op.process} received {key[1]} {word} {offset} after {before[0]}"
            self.findings.report(kind, text, (before[1], op))
        else:
            highest[key] = offset, op


class LogStarts(Checker):
    """Checker of log starts across processes: a linearizable list returns no start below an earlier answer's."""

    invocations: ClassVar[frozenset[Kind]] = frozenset((LIST,))
    completions: ClassVar[frozenset[Kind]] = frozenset((LIST, TRIM))

    def __init__(self, findings: Findings | None = None) -> None:
        super().__init__(findings)
        self._floors: dict[TopicPartition, tuple[Offset, Op]] = {}
        self._lists: dict[int, dict[TopicPartition, tuple[Offset, Op]]] = {}

    def on_invocation(self, op: Op) -> None:
        """Record the log starts that are known when a linearizable list begins."""
        if isinstance(op.payload, ListOffsets) and op.payload.linearizable:
            self._lists[op.process] = self._floors.copy()

    def on_crash(self, op: Op) -> None:
        """Forget the open list of the process."""
        self._lists.pop(op.process, None)

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Process the log starts of a trim or a list; report a list that returned a start below one known before it."""
        floors = self._lists.pop(op.process, {})
        if op.type != OK:
            return
        if isinstance(op.payload, Trim):
            self._check_answer(invocation, op, op.payload)
            self._raise_floor(op.payload.partition, op.payload.start, op)
        elif isinstance(op.payload, ListOffsets) and op.payload.linearizable:
            for partition, start, _ in op.payload.ranges:
                floor = floors.get(partition)
                if floor is not None and start < floor[0]:
                    text = f"{partition} began at {floor[0]}, and at {start} for a linearizable list later"
                    self.findings.report("trim-undone", text, (floor[1], op))
                self._raise_floor(partition, start, op)

    def _check_answer(self, invocation: Op, op: Op, answered: Trim) -> None:
        """Report an answer to a trim whose log start is below the requested one."""
        asked = invocation.payload
        if isinstance(asked, Trim) and answered.start < asked.start:
            text = f"{asked.partition} was to begin at {asked.start}, and begins at {answered.start}"
            self.findings.report("trim-undone", text, (invocation, op))

    def _raise_floor(self, partition: TopicPartition, start: Offset, op: Op) -> None:
        """Record `start` as known log start if it is higher than the known one."""
        floor = self._floors.get(partition)
        if floor is None or start > floor[0]:
            self._floors[partition] = start, op


GroupPartition = tuple[str, TopicPartition]


class CommittedOffsets(Checker):
    """Checker of committed offsets: they never go back (unless `forward_only=False`), and were committed before."""

    invocations: ClassVar[frozenset[Kind]] = frozenset((COMMIT, COMMITTED, HANDLE))
    completions: ClassVar[frozenset[Kind]] = frozenset((COMMIT, COMMITTED))

    def __init__(self, findings: Findings | None = None, *, forward_only: bool = True) -> None:
        """Set whether committed offsets may never decrease (`forward_only`)."""
        super().__init__(findings)
        self._forward_only = forward_only
        self._floors: dict[GroupPartition, tuple[Offset, Op]] = {}
        self._attempts: dict[GroupPartition, dict[Offset, int]] = {}  # commits that may have happened
        self._reads: dict[int, dict[GroupPartition, tuple[Offset, Op]]] = {}
        self._shown: dict[GroupPartition, dict[Offset, Op]] = {}  # the first read of each offset
        self._unordered: set[str] = set()  # groups whose members or operators have committed
        self._handled: set[str] = set()  # groups of handlers, whose commits are not in the history

    def on_invocation(self, op: Op) -> None:
        """Record a commit that may take effect, the offsets known when a read begins, or the group of a handler."""
        payload = op.payload
        if isinstance(payload, Handle):
            self._handled.add(payload.group)
            return
        assert isinstance(payload, GroupOffsets), op
        if op.kind == COMMITTED:
            self._reads[op.process] = self._floors.copy()
            return
        if payload.member:
            self._unordered.add(payload.group)
        for partition, offset in payload.offsets:
            if offset is not None:
                attempts = self._attempts.setdefault((payload.group, partition), {})
                attempts[offset] = attempts.get(offset, 0) + 1

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Process a read of committed offsets, or the outcome of a commit."""
        payload = op.payload
        assert isinstance(payload, GroupOffsets), op
        if op.kind == COMMITTED:
            self._on_read(op, payload)
        elif op.type == FAIL:
            for partition, offset in payload.offsets:
                if offset is not None:
                    self._on_failed_commit((payload.group, partition), offset, op)
        elif op.type == OK:
            for partition, offset in payload.offsets:
                if offset is not None:
                    self._raise_floor((payload.group, partition), offset, op)

    def _on_failed_commit(self, key: GroupPartition, offset: Offset, op: Op) -> None:
        """Report an offset that was read earlier if all commits of this offset have now definitely failed."""
        attempts = self._attempts[key]
        attempts[offset] -= 1
        shown = self._shown.get(key, {}).get(offset)
        if not attempts[offset] and shown is not None:
            text = f"group {key[0]} {key[1]} was at {offset}, and every commit of that definitely failed"
            self.findings.report("phantom-commit", text, (shown, op))

    def _on_read(self, op: Op, payload: GroupOffsets) -> None:
        """Check the committed offsets that a read returned.

        An offset must not be below one known before the read, and must have been committed."""
        floors = self._reads.pop(op.process, {})
        if op.type != OK:
            return
        forward_only = self._forward_only and payload.group not in self._unordered
        for partition, offset in payload.offsets:
            key = (payload.group, partition)
            floor = floors.get(key)
            if forward_only and floor is not None and (offset is None or offset < floor[0]):
                text = f"group {payload.group} {partition} was at {floor[0]} and later at {offset}"
                self.findings.report("committed-went-back", text, (floor[1], op))
            if offset is None:
                continue
            if not self._attempts.get(key, {}).get(offset) and payload.group not in self._handled:
                text = f"group {payload.group} {partition} is at {offset}, which was never committed"
                self.findings.report("phantom-commit", text, (op,))
            self._shown.setdefault(key, {}).setdefault(offset, op)
            self._raise_floor(key, offset, op)

    def _raise_floor(self, key: GroupPartition, offset: Offset, op: Op) -> None:
        """Record `offset` as known committed offset if it is higher than the known one."""
        floor = self._floors.get(key)
        if floor is None or offset > floor[0]:
            self._floors[key] = offset, op
