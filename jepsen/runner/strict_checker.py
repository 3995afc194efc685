"""Checker specific to this product: leader epochs, and errors that are never justified.

- `leader-epoch`: one offset under two leader epochs, or an epoch that falls as offsets rise. Answers to produces and
  fetched batches count.
- `wrong-refusal`: an error that a valid request about something that exists must never get, under any fault: out of
  range for an offset that was returned and that no request may have deleted, an unknown topic, damaged bytes.
- `wrong-start`: a log begins above all offsets that clients had trimmed to until then. Nothing else moves the start
  here: no workload has retention.

Reads entries as they are in the file, because these members are not part of the general format."""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable
from typing import Any, Final

from jepsen.nemeses.fault import FaultKind
from jepsen.nemeses.kind_table import FACTS
from jepsen.runner.finding import Finding, Findings

FAULT_ERRORS: Final = frozenset(
    (
        "Unavailable",  # there is no leader
        "NotServing",  # the broker starts or stops
        "NotListening",
        "Overloaded",
        "LogClosed",
        "OutcomeUnknown",
        "DeadlineExceeded",
        "CoordinatorLoading",
        "RebalanceInProgress",  # members of groups: a member joins, leaves, or was silent for too long
        "StaleGeneration",
        "UnknownMember",
        "FencedInstance",
        "Aborted",  # a transaction, by its client
        "ProducerFenced",  # a transaction timed out, or a newer producer has its id
        "ConcurrentTransactions",  # the transaction before is not complete
        "UnstableOffsets",  # a transaction that may change the offsets is open
        "UnknownGroup",  # no member has joined or committed yet
        "50302",
        "50303",
        "42901",
        "50401",
    )
)
"""Names of errors that any fault explains. A record of a JSON request names a code instead."""
RECREATION_ERRORS: Final = frozenset(("UnknownTopic", "UnknownPartition", "OffsetOutOfRange", "TopicExists"))
"""Errors that the deletion and recreation of topics (`name@id`) explain; `jepsen.checkers.topics` checks them."""
_OUT_OF_RANGE: Final = "OffsetOutOfRange"
_LINE_MAX: Final = 300


class StrictChecker:
    """Checker of leader epochs and of errors that no fault explains; `feed` it every line."""

    def __init__(self, findings: Findings, faults: Collection[FaultKind] = ()) -> None:
        """Create a checker of a history with these kinds of faults, which explain some errors."""
        self._findings = findings
        self._explained = FAULT_ERRORS.union(*(FACTS[kind].explains for kind in faults))
        self._epochs: dict[str, _Epochs] = {}
        self._deletions: dict[str, _Deletions] = {}
        self._deleting: dict[int, str] = {}
        """Partition of the open trim of each process."""

    def feed(self, line: bytes, entry: dict[str, Any]) -> None:
        """Check one line of the history; `entry` is its JSON."""
        error = entry.get("error")
        if error is not None and entry["kind"] != "handle":  # a handler may raise any error
            self._check_error(line, error, entry)
        if entry["kind"] == "trim" or entry["kind"] == "crash":
            self._record_deletion(line, entry)
        if entry["type"] != "ok":
            return
        if entry["kind"] == "send" and entry.get("leader_epoch") is not None:
            send = entry["value"]
            epoch = entry["leader_epoch"]
            self._record_claims(send["partition"], [(min(send["offsets"]), epoch), (max(send["offsets"]), epoch)], line)
        elif entry["kind"] == "poll":
            for fetched in entry["value"]:
                # A batch may begin below the requested offset; it is checked, too.
                self._record_claims(fetched["partition"], entry.get("leader_epochs", ()), line)
        elif entry["kind"] == "list":
            for partition, start, _ in entry["value"]["ranges"]:
                self._check_start(line, partition, start)

    def _check_error(self, line: bytes, error: str, entry: dict[str, Any]) -> None:
        """Report an error that no fault, recreation of a topic or deletion of records explains."""
        is_explained = error.partition(":")[0] in self._explained or error.startswith("answered with")
        if not is_explained and not is_explained_by_recreation(line, error) and not self._is_deleted(error, entry):
            self._findings.add(Finding("wrong-refusal", error, (_format_line(line),)))

    # deleted records

    def _is_deleted(self, error: str, entry: dict[str, Any]) -> bool:
        """Return whether a poll was refused at an offset that may have been deleted."""
        if entry["kind"] != "poll" or error.partition(":")[0] != _OUT_OF_RANGE or "offset" not in entry:
            return False
        offset: int = entry["offset"]
        return offset < self._start_max(entry["partition"])

    def _check_start(self, line: bytes, partition: str, start: int) -> None:
        """Report a log start above each offset to which records were requested to be deleted."""
        if start > 0 and start > self._start_max(partition):
            description = f"{partition} begins at {start}, and no trim asked for more than {self._start_max(partition)}"
            self._findings.add(Finding("wrong-start", description, (_format_line(line),)))

    def _start_max(self, partition: str) -> int:
        """Return the highest possible log start of the partition."""
        deletions = self._deletions.get(partition)
        return 0 if deletions is None else deletions.start_max()

    def _record_deletion(self, line: bytes, entry: dict[str, Any]) -> None:
        """Record the begin or the end of a trim; a crash ends the trim of its process."""
        process = entry["process"]
        if entry["type"] == "invoke":
            partition, start = entry["value"]
            self._deleting[process] = partition
            self._deletions.setdefault(partition, _Deletions()).under_way[process] = start
        elif process in self._deleting:
            partition = self._deleting.pop(process)
            if entry["type"] == "ok":
                self._check_start(line, *entry["value"])
            self._deletions[partition].end(process, may_have_happened=entry["type"] != "fail")

    # epochs

    def _record_claims(self, partition: str, claims: Iterable[tuple[int, int]], line: bytes) -> None:
        """Record `claims`: offsets with the epochs of their batches."""
        epochs = self._epochs.get(partition)
        if epochs is None:
            epochs = self._epochs[partition] = _Epochs()
        spans = epochs.spans
        for offset, epoch in claims:
            span = spans.get(epoch)
            if span is None or not span.low <= offset <= span.high:
                self._extend_span(partition, epochs, offset, epoch, line[:_LINE_MAX])

    def _extend_span(self, partition: str, epochs: "_Epochs", offset: int, epoch: int, line: bytes) -> None:
        """Extend the span of a leader epoch to an offset, or report that the claim contradicts another epoch.

        Each contradiction is reported once."""
        against = epochs.find_contradiction(offset, epoch)
        if against is None:
            epochs.extend(offset, epoch, line)
        elif (offset, epoch) not in epochs.contradictions:
            epochs.contradictions.add((offset, epoch))
            other, at, witness = against
            description = f"{partition} has leader epoch {other} at offset {at}, and {epoch} at offset {offset}"
            self._findings.add(Finding("leader-epoch", description, (_format_line(witness), _format_line(line))))


class _Deletions:
    """Offset below which clients requested deletion of a partition's records; definite failures do not count."""

    __slots__ = ("start", "under_way")

    def __init__(self) -> None:
        self.start = 0
        self.under_way: dict[int, int] = {}
        """Requested log start of each open trim, by process."""

    def start_max(self) -> int:
        """Return the highest offset below which records may be deleted."""
        return max(self.start, *self.under_way.values(), 0)

    def end(self, process: int, *, may_have_happened: bool) -> None:
        """Record the end of a process's trim; `may_have_happened` is false if it definitely failed."""
        start = self.under_way.pop(process)
        if may_have_happened:
            self.start = max(self.start, start)


class _Span:
    """Lowest and highest offset seen under one leader epoch, each with the line that shows it."""

    __slots__ = ("high", "high_line", "low", "low_line")

    def __init__(self, offset: int, line: bytes) -> None:
        self.low = self.high = offset
        self.low_line = self.high_line = line


class _Epochs:
    """Spans of offsets of one partition, by leader epoch; later epochs must have higher offsets.

    Claims that contradict this have been reported, and change no span."""

    __slots__ = ("contradictions", "order", "spans")

    def __init__(self) -> None:
        self.spans: dict[int, _Span] = {}
        self.order: list[int] = []
        self.contradictions: set[tuple[int, int]] = set()

    def find_contradiction(self, offset: int, epoch: int) -> tuple[int, int, bytes] | None:
        """Return another epoch, an offset under it that contradicts this offset's epoch, and its line; or None.

        An offset contradicts if it is at or beyond `offset` under an older epoch, or at or below it under a newer one.
        """
        place = bisect_left(self.order, epoch)
        if place > 0:
            before = self.spans[self.order[place - 1]]
            if before.high >= offset:
                return self.order[place - 1], before.high, before.high_line
        place += epoch in self.spans
        if place < len(self.order):
            behind = self.spans[self.order[place]]
            if behind.low <= offset:
                return self.order[place], behind.low, behind.low_line
        return None

    def extend(self, offset: int, epoch: int, line: bytes) -> None:
        """Extend the span of an epoch to an offset; create the span at its first offset."""
        span = self.spans.get(epoch)
        if span is None:
            insort(self.order, epoch)
            self.spans[epoch] = _Span(offset, line)
        elif offset < span.low:
            span.low, span.low_line = offset, line
        else:
            span.high, span.high_line = offset, line


def is_explained_by_recreation(line: bytes, error: str) -> bool:
    """Return whether a creation or deletion of the topic explains the error."""
    return error.partition(":")[0] in RECREATION_ERRORS and (b'"kind":"topic"' in line or b"@" in line)


def _format_line(line: bytes) -> str:
    """Return the beginning of a history line as text."""
    return line[:_LINE_MAX].decode(errors="replace").rstrip()
