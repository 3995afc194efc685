"""Page of a suite: its runs by number, with their findings and links to their pages."""

from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import orjson

from jepsen.report.templates import render
from raftlog.errors import InvalidArgument

VERDICTS: Final = ("invalid", "broken", "interrupted", "unknown", "valid")
"""Verdicts, the worst first."""


class Row(NamedTuple):
    """Run of a suite. `link` leads to its page, or to its folder without a page; None without a folder."""

    number: str
    title: str
    verdict: str
    seconds: float
    anomalies: dict[str, int]
    doubts: tuple[str, ...]
    text: str
    link: str | None


def page_of(folder: Path) -> str:
    """Return the page as HTML. Raises `InvalidArgument` if `suite.json` is not a list of runs, and `OSError`."""
    path = folder / "suite.json"
    try:
        rows = [_row(folder, run) for run in orjson.loads(path.read_bytes())]
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError) as error:
        raise InvalidArgument(f"{path} is no list of runs: {error!r}") from error
    verdicts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in VERDICTS}
    return render(
        "suite.html",
        name=folder.name,
        rows=rows,
        verdict=next((verdict for verdict in VERDICTS if verdicts[verdict]), "unknown"),
        verdicts=verdicts,
        seconds=sum(row.seconds for row in rows),
    )


def _row(folder: Path, run: dict[str, Any]) -> Row:
    """Return the table row of a run, by its entry in the results of the suite in `folder`."""
    text = " ".join(str(run[name]) for name in ("expected", "note") if run.get(name))
    return Row(
        number=str(run["number"]),
        title=str(run["title"]),
        verdict=str(run["verdict"]),
        seconds=float(run["seconds"]),
        anomalies=dict(run["anomalies"]),
        doubts=tuple(map(str, run.get("doubts", ()))),
        text=text,
        link=_link(folder, run.get("folder")),
    )


def _link(suite: Path, name: str | None) -> str | None:
    """Return the URL of a run's page, or its directory, relative to the suite's directory.

    None without a run, or if its directory does not exist in that of the suite."""
    if not name:
        return None
    run = (suite / name).resolve()
    if not run.is_relative_to(suite.resolve()) or not run.is_dir():
        return None
    page = run / "index.html" if (run / "index.html").exists() else run
    return quote(str(page.relative_to(suite.resolve())))
