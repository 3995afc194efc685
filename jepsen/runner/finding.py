"""Findings: anomalies in the history, and problems of the nodes."""

from typing import Any, Final, NamedTuple

from jepsen.checkers import Anomaly

SHOWN_MAX: Final = 20
"""Largest number of findings of a kind that are kept."""


class Finding(NamedTuple):
    """Violation of a promise, or another problem of a run, with its evidence.

    `kind` is a checker's kind of anomaly, or one of this harness; `evidence` are lines of the history or of a log."""

    kind: str
    what: str
    evidence: tuple[str, ...] = ()

    @classmethod
    def of(cls, anomaly: Anomaly) -> "Finding":
        """Return the finding of an anomaly, with its entries as text."""
        return cls(anomaly.kind, anomaly.what, tuple(map(str, anomaly.ops)))

    def __str__(self) -> str:
        return "\n".join((f"{self.kind}: {self.what}", *(f"    {line}" for line in self.evidence)))

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


WORST_FIRST: Final = (
    "lost-write",
    "lost-topic",
    "lost-key",
    "wrong-start",
    "resurrected-topic",
    "resurrected-key",
    "inconsistent-offset",
    "duplicate",
    "aborted-read",
    "phantom",
    "not-linearizable",
    "replicas-differ",
)
"""Kinds that come first in a report; the others follow in the order of their discovery."""


class Findings:
    """Findings of a run: all are counted, and a bounded number of each kind is kept."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.shown: list[Finding] = []

    def add(self, finding: Finding) -> None:
        """Count a finding, and store it if fewer than `SHOWN_MAX` of its kind are stored."""
        count = self.counts[finding.kind] = self.counts.get(finding.kind, 0) + 1
        if count <= SHOWN_MAX:
            self.shown.append(finding)

    def worst_first(self) -> list[Finding]:
        """Return the kept findings, by kind, the worst kind first."""
        kinds = [*(kind for kind in WORST_FIRST if kind in self.counts), *self.counts]
        return sorted(self.shown, key=lambda finding: kinds.index(finding.kind))

    def add_counted(self, kind: str, count: int) -> None:
        """Count further findings of a kind, whose details are not kept."""
        self.counts[kind] = self.counts.get(kind, 0) + count
