"""What came of a history: anomalies as `raftlog.checkers` names and prints them, and what was not looked for.

Made by `judging`. An anomaly holds its entries as text, not whole: a poll may have thousands of records. Their number
is bounded, so that a verdict fits in the driver however broken the log is.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, get_args

from raftlog.checkers import AnomalyKind

JUDGED: Final[tuple[AnomalyKind, ...]] = (
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
    "sequence-order",
    "sequence-gap",
    "trim-undone",
)
"""Kinds that are looked for in every history."""
NOT_JUDGED: Final[tuple[AnomalyKind, ...]] = tuple(kind for kind in get_args(AnomalyKind) if kind not in JUDGED)
"""Kinds that only `raftlog.checkers` can find: what members, keys, registers and topics do, lag, and replicas, which
are in no history."""


class HistoryAnomaly(NamedTuple):
    """One broken promise: what it is, in a sentence, and the entries that prove it, with their sequences."""

    kind: AnomalyKind
    what: str
    sequences: tuple[int, ...] = ()
    entries: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((f"{self.kind}: {self.what}", *(f"    {entry}" for entry in self.entries)))


class HistoryVerdict(NamedTuple):
    """Anomalies by kind and sequence (the first of each kind), and how many there were.

    `unjudged` are the kinds that this history has operations for and that were not looked for.
    """

    anomalies: tuple[HistoryAnomaly, ...]
    counts: dict[AnomalyKind, int]
    operations: int
    unjudged: tuple[AnomalyKind, ...] = ()

    def is_clean(self, tolerated: Iterable[AnomalyKind] = ()) -> bool:
        """Nothing was found, and nothing was left to others, but for what is tolerated."""
        return not (self.counts.keys() | set(self.unjudged)) - set(tolerated)

    @property
    def is_sound(self) -> bool:
        """Nothing was found; `unjudged` may hold more."""
        return not self.counts

    def as_json(self) -> dict[str, object]:
        kinds: list[dict[str, object]] = [{"kind": kind, "found": count} for kind, count in self.counts.items()]
        kinds += [{"kind": kind, "found": None} for kind in self.unjudged]
        problems = [str(anomaly) for anomaly in self.anomalies]
        return {"operations": self.operations, "is_sound": self.is_sound, "kinds": kinds, "problems": problems}

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.counts.items())
        text = f"{self.operations} operations{f': {kinds}' if kinds else ', no anomaly'}"
        if self.unjudged:
            text += f"\nnot judged, raftlog.checkers can: {', '.join(self.unjudged)}"
        return "\n".join((text, *map(str, self.anomalies)))
