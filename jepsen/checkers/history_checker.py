"""All checkers of a history, fed entry by entry, with invocations paired to completions.

A malformed history (a process with two operations under way, a completion without invocation, time that falls) raises
`InvalidArgument`: it is a fault of the recorder, not of the log."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, get_args

from jepsen.checkers.checker import (
    KEPT_MAX,
    Anomaly,
    AnomalyKind,
    Checker,
    CompletionHandler,
    Findings,
    InvocationHandler,
)
from jepsen.checkers.compaction import Compaction
from jepsen.checkers.density import Density
from jepsen.checkers.handler_order import HandlerOrder
from jepsen.checkers.history import CRASH, INVOKE, LONE_KINDS, Kind, Op
from jepsen.checkers.lag import RealtimeLag
from jepsen.checkers.linearizability import Linearizability
from jepsen.checkers.member_commits import MemberCommits
from jepsen.checkers.monotonicity import CommittedOffsets, ListedOffsets, LogStarts
from jepsen.checkers.offset_order import OffsetOrder
from jepsen.checkers.ownership import Ownership
from jepsen.checkers.polls import Polls
from jepsen.checkers.records import RecordBook
from jepsen.checkers.sequences import Sequences
from jepsen.checkers.topics import Topics
from jepsen.checkers.transactions import Transactions
from raftlog.errors import InvalidArgument


class Rules(NamedTuple):
    """Promises of the log under test; checkers report violations of these."""

    dense: bool = True
    """Whether offsets have no gaps. Set to false if there are transactions; compacted partitions are never checked."""
    forward_only_commits: bool = True
    """Whether committed offsets of a group never decrease, unless a member commits or an operator resets them."""
    serial_transactions: bool = False
    """Whether overlapping transactions must be serializable; those of Kafka are not."""
    lag_bound_ns: int | None = None
    """Longest time that a consumer may lag behind, in nanoseconds; `None` only measures."""


class Verdict(NamedTuple):
    """Result of a check: anomalies in the order of their discovery, a bounded number of each kind, and their counts."""

    anomalies: tuple[Anomaly, ...]
    counts: dict[AnomalyKind, int]
    operations: int
    worst_lag_ns: int
    undecided: tuple[str, ...] = ()
    """Registers whose linearizability is undecided because the search reached a limit."""

    def is_clean(self, tolerated: Iterable[AnomalyKind] = ()) -> bool:
        """Return whether every check was decided and found no anomaly besides the tolerated kinds."""
        return not self.undecided and not self.counts.keys() - set(tolerated)

    def __str__(self) -> str:
        """Return the numbers of operations and anomalies, and all reported anomalies, as text."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.counts.items())
        text = f"{self.operations} operations{f': {kinds}' if kinds else ', no anomaly'}"
        if self.undecided:
            text += f"\nnobody knows whether these registers are linearizable: {', '.join(self.undecided)}"
        return "\n".join((text, *map(str, self.anomalies)))


class HistoryChecker:
    """All checkers of one history: `feed` it every entry, then call `finish`."""

    def __init__(self, rules: Rules | None = None, *, kept_max: int = KEPT_MAX) -> None:
        """Create all checkers, with one record book for all of them.

        `kept_max` is the number of anomalies that are stored for each kind."""
        rules = Rules() if rules is None else rules
        self.findings = Findings(kept_max)
        self.book = RecordBook(self.findings)
        self.lag = RealtimeLag(self.findings, bound_ns=rules.lag_bound_ns)
        self.linearizability = Linearizability(self.findings)
        self.checkers: tuple[Checker, ...] = (
            Topics(self.book, self.findings),  # before those that read the book at the end
            self.book,
            Polls(self.findings, book=self.book, dense=rules.dense),
            OffsetOrder(self.findings, has_transactions=not rules.dense),
            ListedOffsets(self.findings),
            LogStarts(self.findings),
            CommittedOffsets(self.findings, forward_only=rules.forward_only_commits),
            MemberCommits(self.findings),
            Ownership(self.findings),
            HandlerOrder(self.findings),
            Sequences(self.book, self.findings),
            Compaction(self.book, self.findings),
            Transactions(self.book, self.findings, is_serial=rules.serial_transactions),
            self.lag,
            self.linearizability,
            *((Density(self.book, self.findings),) if rules.dense else ()),
        )
        self._pairing = Pairing(self.checkers)

    def feed(self, op: Op) -> Sequence[Anomaly]:
        """Return the anomalies that this entry proved. Raises `InvalidArgument` when it cannot be part of a history."""
        before = len(self.findings.anomalies)
        self._pairing.feed(op)
        return self.findings.anomalies[before:] if len(self.findings.anomalies) > before else ()

    def finish(self) -> Verdict:
        """End all checkers, and return the verdict on the whole history; may be called once."""
        for checker in self.checkers:
            checker.finish()
        findings = self.findings
        return Verdict(
            tuple(findings.anomalies),
            findings.counts,
            self._pairing.operations,
            self.lag.worst_ns,
            tuple(self.linearizability.undecided),
        )


class Pairing:
    """Matcher of completions and invocations, which calls the checkers that use either."""

    def __init__(self, checkers: Sequence[Checker]) -> None:
        """Register the checkers' handlers by the kinds of operations that they receive."""
        kinds: tuple[Kind, ...] = get_args(Kind)
        self.operations = 0
        self._pending: dict[int, Op] = {}
        self._last_sequence, self._last_time_ns = -1, 0
        self._invoked: dict[Kind, list[InvocationHandler]] = {
            kind: [checker.on_invocation for checker in checkers if kind in checker.invocations] for kind in kinds
        }
        self._completed: dict[Kind, list[CompletionHandler]] = {
            kind: [checker.on_completion for checker in checkers if kind in checker.completions] for kind in kinds
        }
        self._crashed = [checker.on_crash for checker in checkers]

    def feed(self, op: Op) -> None:
        """Process the next entry: pass invocations, pairs of invocation and completion, and crashes to the checkers.

        Raises `InvalidArgument` if the entries are not in order, or if an operation and its completion do not match."""
        if op.sequence <= self._last_sequence or op.time_ns < self._last_time_ns:
            raise InvalidArgument(f"entries are in the order of sequence and time: {op} follows #{self._last_sequence}")
        self._last_sequence, self._last_time_ns = op.sequence, op.time_ns
        if op.type == INVOKE:
            if self._pending.setdefault(op.process, op) is not op:
                raise InvalidArgument(f"process {op.process} has two operations under way: {op}")
            self.operations += 1
            for invoked in self._invoked[op.kind]:
                invoked(op)
        elif op.kind in LONE_KINDS:
            self._feed_unpaired(op)
        else:
            invocation = self._pending.pop(op.process, None)
            if invocation is None or invocation.kind != op.kind:
                raise InvalidArgument(f"a completion without its invocation: {op}")
            for completed in self._completed[op.kind]:
                completed(invocation, op)

    def _feed_unpaired(self, op: Op) -> None:
        """Process an entry that neither begins nor ends an operation.

        A crash ends the open operation of its process."""
        if op.kind == CRASH:
            self._pending.pop(op.process, None)
            for crashed in self._crashed:
                crashed(op)


def check_history(ops: Iterable[Op], rules: Rules | None = None) -> Verdict:
    """Check a whole history with all checkers; reads it once, so `ops` may be `read_lines` of a large file."""
    checker = HistoryChecker(rules)
    for op in ops:
        checker.feed(op)
    return checker.finish()


def check_with(checker: Checker, ops: Iterable[Op]) -> Findings:
    """Check a whole history with one checker."""
    pairing = Pairing((checker,))
    for op in ops:
        pairing.feed(op)
    checker.finish()
    return checker.findings
