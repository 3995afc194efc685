"""Base of all checkers: the anomalies they report and the operations they receive.

A checker is fed invocations and completions one by one and reports an `Anomaly` as soon as the history proves it;
`finish` reports anomalies that only the end of a history proves. Checkers have no clock and read only operations.
Memory: `Findings` keeps `kept_max` anomalies of a kind and counts the rest."""

from collections.abc import Callable, Iterable
from typing import ClassVar, Final, Literal, NamedTuple

from jepsen.checkers.history import Kind, Op

AnomalyKind = Literal[
    "lost-write",
    "unseen",
    "duplicate",
    "inconsistent-offset",
    "aborted-read",
    "phantom",
    "poll-skip",
    "nonmonotonic-poll",
    "int-poll-skip",
    "int-nonmonotonic-poll",
    "offset-order",
    "nonmonotonic-send",
    "int-nonmonotonic-send",
    "stale-end",
    "gap",
    "start-went-back",
    "end-went-back",
    "committed-went-back",
    "phantom-commit",
    "lost-commit",
    "two-owners",
    "generation-went-back",
    "fenced-commit",
    "unhandled",
    "handled-out-of-order",
    "sequence-order",
    "sequence-gap",
    "lost-key",
    "resurrected-key",
    "trim-undone",
    "lost-topic",
    "resurrected-topic",
    "not-linearizable",
    "torn-transaction",
    "intermediate-read",
    "write-cycle",
    "circular-information-flow",
    "consumed-twice",
    "skipped-input",
    "aborted-offset",
    "stale-offset",
    "unbalanced",
    "realtime-lag",
    "replicas-differ",
]

KEPT_MAX: Final = 100


class Anomaly(NamedTuple):
    """Violation of a promise: a sentence, and the entries that prove it, in the order of the history."""

    kind: AnomalyKind
    what: str
    ops: tuple[Op, ...] = ()

    def __str__(self) -> str:
        return "\n".join((f"{self.kind}: {self.what}", *(f"    {op}" for op in self.ops)))


class Findings:
    """Anomalies in the order of discovery, at most `kept_max` of a kind, and the number of all of them by kind."""

    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self.kept_max = kept_max
        self.anomalies: list[Anomaly] = []
        self.counts: dict[AnomalyKind, int] = {}

    def report(self, kind: AnomalyKind, what: str, ops: Iterable[Op | None] = ()) -> None:
        """Count an anomaly, and store it if fewer than `kept_max` of its kind are stored.

        `ops` are the entries that prove it; None is ignored, and duplicates are removed."""
        count = self.counts[kind] = self.counts.get(kind, 0) + 1
        if count <= self.kept_max:
            proof = {op.sequence: op for op in ops if op is not None}
            self.anomalies.append(Anomaly(kind, what, tuple(proof[sequence] for sequence in sorted(proof))))

    def kinds(self) -> list[AnomalyKind]:
        """Return the kinds found, in the order of their discovery."""
        return list(self.counts)


class Checker:
    """Base of checkers; `invocations` and `completions` are the kinds of operations that the checker receives."""

    invocations: ClassVar[frozenset[Kind]] = frozenset()
    completions: ClassVar[frozenset[Kind]] = frozenset()

    def __init__(self, findings: Findings | None = None) -> None:
        self.findings = Findings() if findings is None else findings

    def on_invocation(self, op: Op) -> None:
        """Process an invocation of one of `invocations`."""

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Process a completion of one of `completions`, of any type, with its invocation."""

    def on_crash(self, op: Op) -> None:
        """Process the crash of a process's client."""

    def finish(self) -> None:
        """Process the end of the history; may be called once."""


InvocationHandler = Callable[[Op], None]
CompletionHandler = Callable[[Op, Op], None]
