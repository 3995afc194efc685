"""Content of a run's folder, for the page of the run.

Folders of older runs lack later additions; missing content is not shown."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import orjson

from jepsen.report.frame import Band, Frame
from jepsen.report.series import Series
from jepsen.runner.quiet import SETTLED_S, quiet_spans
from raftlog.errors import InvalidArgument

HISTORY: Final = "history.jsonl"
_ENTRY: Final = re.compile(r"#(\d+) ")
"""Form in which a checker's evidence names an entry of the history, by its number from 0."""


class Evidence(NamedTuple):
    """Evidence of a finding; `number` is its line in the history (from 0), None for other text."""

    text: str
    number: int | None

    @classmethod
    def of(cls, text: str) -> "Evidence":
        """Return the evidence of a line of text, with the number of its entry if it has one."""
        entry = _ENTRY.match(text)
        return cls(text, int(entry[1]) if entry else None)


class KindFindings(NamedTuple):
    """Findings of one kind: their number, and the kept ones."""

    kind: str
    number: int
    shown: tuple[tuple[str, tuple[Evidence, ...]], ...]


class Folder:
    """Folder of a run, with its results and logs.

    Raises `InvalidArgument` if its `results.json` is not the result of a run."""

    def __init__(self, path: Path) -> None:
        """Read the results and faults of a run.

        Raises `InvalidArgument` if `path` does not contain the results of a run."""
        self.path = path
        self.results: dict[str, Any] = _read_json_object(path / "results.json")
        if "verdict" not in self.results:
            raise InvalidArgument(f"{path / 'results.json'} holds no verdict of a run")
        timeline = _read_json_object(path / "timeline.json") if (path / "timeline.json").exists() else {}
        faults = (*timeline.get("happened", ()), *timeline.get("unseen", ()))
        self.bands = tuple(Band.of(happened) for happened in faults)

    @property
    def history(self) -> Path:
        return self.path / HISTORY

    @property
    def load_s(self) -> float:
        """Duration of the load in seconds; the planned one if it was not recorded."""
        return float(self.results.get("load_s") or self.results.get("options", {}).get("seconds", 0))

    def findings_by_kind(self) -> list[KindFindings]:
        """Return the findings, worst first, as ordered in the results."""
        by_kind: dict[str, list[tuple[str, tuple[Evidence, ...]]]] = {}
        for finding in self.results.get("findings", ()):
            evidence = tuple(Evidence.of(text) for text in finding["evidence"])
            by_kind.setdefault(finding["kind"], []).append((finding["what"], evidence))
        counts: Mapping[str, int] = self.results.get("anomalies", {})
        kinds = [*by_kind, *(kind for kind in counts if kind not in by_kind)]
        return [
            KindFindings(kind, counts.get(kind, len(by_kind.get(kind, ()))), tuple(by_kind.get(kind, ())))
            for kind in kinds
        ]

    def evidence_lines(self) -> frozenset[int]:
        """Return the numbers of the history's lines that are shown as evidence beside the findings."""
        return frozenset(
            evidence.number
            for found in self.findings_by_kind()
            for _, shown in found.shown
            for evidence in shown
            if evidence.number is not None
        )

    def first_fault_s(self) -> float | None:
        """Return the beginning of the first fault, in seconds; None without faults."""
        return min((band.begin_s for band in self.bands), default=None)

    def frame(self, series: Series) -> Frame:
        """Return the time axis of the plots: from the first operation to the last, with all faults and quiet spans."""
        begin_s = min([0.0, *series.offered_s[:1]])
        end_s = max(series.end_s, *(band.served_s for band in self.bands), begin_s + 1.0, self.load_s)
        busy = [(band.begin_s, band.served_s + SETTLED_S) for band in self.bands]
        return Frame(begin_s, end_s, self.load_s, self.bands, tuple(quiet_spans(busy, self.load_s)))

    def log_link(self, name: str) -> str | None:
        """Return the link from the page to a log beside it; None without such a log."""
        path = self.path / "logs" / f"{name}.log"
        return f"logs/{quote(path.name)}" if path.exists() else None

    def logs(self) -> list[tuple[str, str, int]]:
        """Return name, link and size in bytes of each log that is not empty."""
        paths = sorted((self.path / "logs").glob("*.log"))
        return [(path.stem, f"logs/{quote(path.name)}", size) for path in paths if (size := path.stat().st_size)]


def _read_json_object(path: Path) -> dict[str, Any]:
    """Read a file that contains a JSON object. Raises `InvalidArgument`."""
    try:
        read = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise InvalidArgument(f"there is no {path.name} in {path.parent}") from None
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(f"{path} is not JSON: {error}") from None
    if not isinstance(read, dict):
        raise InvalidArgument(f"{path} holds no object")
    return read
