"""What the history says beyond what the general judges know: leader epochs, and errors that no client deserves.

- `leader-epoch`: one offset under two leader epochs, or an epoch that falls as offsets rise. Answers to produces and
  fetched batches count.
- `wrong-refusal`: an error that a well-formed request about something that exists must never get, whatever the faults:
  out of range for an offset that was shown, an unknown topic, damaged bytes.

Reads entries as they stand in the file, because these members are not part of the general format.
"""

from typing import Any, Final

from jepsen.runner.finding import Finding, Findings

DESERVED: Final = frozenset(
    (
        "Unavailable",  # nobody leads, or the broker starts or stops
        "NotListening",
        "Overloaded",
        "LogClosed",
        "OutcomeUnknown",
        "DeadlineExceeded",
        "CoordinatorLoading",
        "RebalanceInProgress",  # members of groups: somebody joins, leaves, or was silent for too long
        "StaleGeneration",
        "UnknownMember",
        "FencedInstance",
        "UnknownGroup",  # nobody has joined or committed yet
    )
)
"""Names of errors that faults explain. A record of a JSON request names a code instead."""
DESERVED_CODES: Final = frozenset(("50302", "50303", "42901", "50401"))
_LINE_MAX: Final = 300


class StrictJudge:
    """`feed` every line, then `finish`."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._epochs: dict[str, dict[int, tuple[int, str]]] = {}
        self._contradicted: set[tuple[str, int]] = set()

    def feed(self, line: bytes, entry: dict[str, Any]) -> None:
        error = entry.get("error")
        if error is not None:
            self._judge_error(line, error)
        if entry["type"] != "ok":
            return
        if entry["kind"] == "send" and entry.get("leader_epoch") is not None:
            for offset in entry["value"]["offsets"]:
                self._note(entry["value"]["partition"], offset, entry["leader_epoch"], line)
        elif entry["kind"] == "poll":
            for fetched in entry["value"]:
                # A batch may begin below the offset that was asked for; it is judged all the same.
                for offset, epoch in entry.get("leader_epochs", ()):
                    self._note(fetched["partition"], offset, epoch, line)

    def _judge_error(self, line: bytes, error: str) -> None:
        name = error.partition(":")[0]
        if name not in DESERVED and name not in DESERVED_CODES and not error.startswith("answered with"):
            self._findings.add(Finding("wrong-refusal", error, (_shown(line),)))

    def _note(self, partition: str, offset: int, epoch: int, line: bytes) -> None:
        known = self._epochs.setdefault(partition, {})
        first = known.setdefault(offset, (epoch, _shown(line)))
        if first[0] != epoch and (partition, offset) not in self._contradicted:
            self._contradicted.add((partition, offset))
            what = f"{partition} offset {offset} was under leader epoch {first[0]} and under {epoch}"
            self._findings.add(Finding("leader-epoch", what, (first[1], _shown(line))))

    def finish(self) -> None:
        for partition, known in self._epochs.items():
            offsets = sorted(known)
            greatest, at = -1, -1
            for offset in offsets:
                epoch = known[offset][0]
                if epoch < greatest:
                    what = f"{partition} has leader epoch {greatest} at offset {at} and {epoch} behind it at {offset}"
                    evidence = (known[at][1], known[offset][1])
                    self._findings.add(Finding("leader-epoch", what, evidence))
                if epoch > greatest:
                    greatest, at = epoch, offset


def _shown(line: bytes) -> str:
    return line[:_LINE_MAX].decode(errors="replace").rstrip()
