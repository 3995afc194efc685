"""Verdict on a history and the findings on the nodes.

    invalid: something was found    unknown: nothing was, but too little happened for a verdict    valid: neither

A test without acknowledgements, or without a requested fault, proves nothing about the log, so it never passes.
"""

import gc
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from jepsen.checkers import HistoryChecker, Op, Rules, Send, read_entries
from jepsen.checkers.history import CRASH, INVOKE, LIST, OK, POLL, SEND
from jepsen.nemeses.fault import FaultKind, InjectedFault
from jepsen.runner.availability import Availability
from jepsen.runner.finding import SHOWN_MAX, Finding, Findings
from jepsen.runner.quiet import Requests
from jepsen.runner.strict_checker import StrictChecker, is_explained_by_recreation
from jepsen.workloads.client.access import ANY_NODE
from raftlog.types import TopicPartition

VerdictName = Literal["valid", "invalid", "unknown"]
ACKNOWLEDGED_MIN: Final = 50
ACKNOWLEDGED_SHARE_MIN: Final = 0.05
"""Smallest share of acknowledged sends among all sends with `acks=all`."""


class CheckResult(NamedTuple):
    """Result of checking a history.

    `counts` are completions by kind of operation and outcome; `open` never completed."""

    findings: Findings
    operations: int
    counts: dict[str, dict[str, int]]
    acknowledged_by_partition: dict[TopicPartition, int]
    polled_records: int
    worst_lag_ns: int
    availability: Availability
    requests: Requests
    asked_all: int
    """Number of completed sends with `acks=all`, without those marked `hasty`."""
    undecided: tuple[str, ...] = ()
    """Registers whose linearizability is undecided."""

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged sends."""
        return self.counts.get(SEND, {}).get(OK, 0)


def check_file(history: Path, *, drained: bool, faults: Collection[FaultKind] = (), dense: bool = True) -> CheckResult:
    """Check a history file. Without a drain, unread records do not count as lost.

    `faults` are the kinds that were injected, which explain refused requests of clients. `dense`: offsets have no
    gaps."""
    checking = _HistoryPass(drained, faults, dense=dense)
    with open(history, "rb") as lines, _without_garbage_collection():
        for op, entry, line in read_entries(lines):
            checking.feed(op, entry, line)
        return checking.finish()


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection in the block: the millions of kept entries contain no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _HistoryPass:
    """All checks and figures of a history, in one pass over its entries."""

    def __init__(self, drained: bool, faults: Collection[FaultKind], *, dense: bool) -> None:
        """Prepare to check a history.

        `drained` is whether everything was read at the end; `dense` whether each offset has a record."""
        self._drained = drained
        self._findings = Findings()
        self._history_checker = HistoryChecker(Rules(dense=dense, forward_only_commits=True))
        self._strict = StrictChecker(self._findings, faults)
        self._availability = Availability()
        self._requests = Requests()
        self._pending: dict[int, Op] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self._acknowledged: dict[TopicPartition, int] = {}
        self._polled = 0
        self._asked_all = 0

    def feed(self, op: Op, entry: dict[str, Any], line: bytes) -> None:
        """Check the next entry: `entry` is its JSON and `line` its text."""
        self._history_checker.feed(op)
        self._strict.feed(line, entry)
        if op.type == INVOKE:
            self._pending[op.process] = op
            self._requests.add_invocation(op, entry.get("node", ANY_NODE))
            return
        invocation = self._pending.pop(op.process, None)
        if invocation is None:
            return
        if op.kind == CRASH:
            self._count(invocation.kind, "open")  # the client has ended, whatever the answer would have been
            return
        self._count(op.kind, op.type)
        if op.kind == POLL and op.type == OK:
            self._polled += sum(len(fetched["offsets"]) for fetched in entry["value"])
        if not op.error or not is_explained_by_recreation(line, op.error):
            self._record_answer(invocation, op, entry)

    def _count(self, kind: str, outcome: str) -> None:
        """Count an operation by its kind and outcome."""
        by_outcome = self._counts.setdefault(kind, {})
        by_outcome[outcome] = by_outcome.get(outcome, 0) + 1

    def _record_answer(self, invocation: Op, op: Op, entry: dict[str, Any]) -> None:
        """Record an answered request in the figures of availability and quiet time.

        Of sends, only those with `acks=all` and a sufficient timeout count."""
        send = op.payload
        if not isinstance(send, Send):
            self._requests.add_completion(invocation, op)
        elif entry.get("acks") == "all" and not entry.get("hasty"):
            self._asked_all += 1
            self._requests.add_completion(invocation, op)
            self._availability.record(op.time_ns, op.type, send.partition)
        if isinstance(send, Send) and op.type == OK:
            self._acknowledged[send.partition] = self._acknowledged.get(send.partition, 0) + len(send.values)

    def finish(self) -> CheckResult:
        """End the check and return its result.

        Records that no poll reached are anomalies only if everything was read."""
        verdict = self._history_checker.finish()
        shown: dict[str, int] = {}
        for anomaly in verdict.anomalies:
            if anomaly.kind != "unseen" or self._drained:
                self._findings.add(Finding.of(anomaly))
                shown[anomaly.kind] = shown.get(anomaly.kind, 0) + 1
        for kind, count in verdict.counts.items():
            if kind in shown:
                self._findings.add_counted(kind, count - shown[kind])
        for op in self._pending.values():
            self._count(op.kind, "open")
            self._requests.add_unfinished(op)
        return CheckResult(
            findings=self._findings,
            operations=verdict.operations,
            counts=self._counts,
            acknowledged_by_partition=self._acknowledged,
            polled_records=self._polled,
            worst_lag_ns=verdict.worst_lag_ns,
            availability=self._availability,
            requests=self._requests,
            asked_all=self._asked_all,
            undecided=verdict.undecided,
        )


def doubts(
    checked: CheckResult,
    partitions: Iterable[TopicPartition],
    kinds: Iterable[FaultKind],
    happened: Sequence[InjectedFault],
) -> list[str]:
    """Return the reasons why a test without findings proves nothing."""
    found = []
    least = max(ACKNOWLEDGED_MIN, ACKNOWLEDGED_SHARE_MIN * checked.asked_all)
    if checked.acknowledged < least:
        found.append(
            f"only {checked.acknowledged} of {checked.asked_all} sends were acknowledged, {least:.0f} are the least"
        )
    untouched = [str(place) for place in partitions if not checked.acknowledged_by_partition.get(place)]
    if untouched:
        found.append(f"nothing was acknowledged in {', '.join(untouched)}")
    if not checked.polled_records:
        found.append("nothing was polled")
    if not checked.counts.get(LIST, {}).get(OK):
        found.append("no end of a partition was returned")
    if checked.undecided:
        found.append(
            f"it is unknown whether these registers are linearizable: {', '.join(checked.undecided[:SHOWN_MAX])}"
        )
    seen = {fault.kind for fault in happened}
    found += [f"no {kind} happened, although it was asked for" for kind in kinds if kind not in seen]
    return found


def verdict_of(findings: Findings, doubted: Sequence[str]) -> VerdictName:
    """Return "invalid" if there are findings, "unknown" if there are doubts, else "valid"."""
    if findings.counts:
        return "invalid"
    return "unknown" if doubted else "valid"
