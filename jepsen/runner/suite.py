"""`python -m jepsen suite`: runs every numbered scenario, one after another, and prints a table of results.

STORE/{time}-suite/
  suite.json           a row for each scenario: number, title, verdict, seconds, folder, anomalies, doubts
  {run folders}        as of `python -m jepsen test`
"""

import secrets
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import orjson
from rich.console import Console
from rich.table import Table

from jepsen.runner.arguments import exit_on_store_error, store_option, sync_method_option
from jepsen.runner.cluster import RealCluster
from jepsen.runner.machine import unsupported_reason
from jepsen.runner.progress import Bar, interrupt_on_sigterm
from jepsen.runner.run import COULD_NOT_RUN, INTERRUPTED, draw_page, run
from jepsen.runner.store import Store, new_directory
from jepsen.scenarios.catalogue import SCENARIOS
from jepsen.scenarios.scenario import Scenario

_WIDTH: Final = 140


def _parse_numbers(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Parse `F1,F20`; all scenarios without a value."""
    if text is None:
        return tuple(SCENARIOS)
    wanted = [name.strip().upper() for name in text.split(",")]
    unknown = [name for name in wanted if name not in SCENARIOS]
    if unknown:
        raise click.BadParameter(f"no scenario is called {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    return tuple(dict.fromkeys(wanted))


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--only", callback=_parse_numbers, help="Numbers of scenarios, with commas. [default: all]")
@click.option("--seed", type=click.IntRange(min=0), help="Draws what clients do. [default: any]")
@sync_method_option()
@store_option("Where runs are kept; a suite has a folder of its own there.")
@click.option("--list", "is_list", is_flag=True, help="List the scenarios and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line for each scenario.")
def suite(only: tuple[str, ...], seed: int | None, sync_method: str, store: Path, is_list: bool, as_json: bool) -> None:
    """Play the numbered scenarios on real brokers.

    Exit code 0 when all are valid, 1 when one is not, 2 when one could not be run.
    """
    wanted = [SCENARIOS[number] for number in only]
    if is_list:
        _print_list(wanted, as_json)
        return
    if reason := unsupported_reason(kind for scenario in wanted for kind in scenario.faults):
        raise click.UsageError(reason)
    drawn = secrets.randbelow(1 << 31) if seed is None else seed
    with exit_on_store_error(store):
        folder = new_directory(store.absolute(), f"{time.strftime('%Y%m%dT%H%M%S')}-suite")
    rows: list[dict[str, Any]] = []
    overview = ""
    with interrupt_on_sigterm():
        for number, scenario in enumerate(wanted, 1):
            row = _play_scenario(scenario, drawn, sync_method, folder, f"{number}/{len(wanted)} {scenario.number}")
            rows.append(row)
            (folder / "suite.json").write_bytes(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
            overview = draw_page(folder)
            if as_json:
                click.echo(orjson.dumps(row))
            elif not sys.stdout.isatty():
                click.echo(f"{row['number']} {row['verdict']} after {row['seconds']:.0f} s: {row['title']}", err=True)
            if row["verdict"] == "interrupted":
                break
    if not as_json:
        Console(width=None if sys.stdout.isatty() else _WIDTH).print(_table(rows))
        click.echo(overview)
    sys.exit(_exit_code(rows))


def _play_scenario(scenario: Scenario, seed: int, sync_method: str, parent: Path, title: str) -> dict[str, Any]:
    """Play a scenario and return its row for the suite, even when the harness fails."""
    options = scenario.options(seed)
    options = options._replace(serve_flags=(*options.serve_flags, "--sync-method", sync_method))
    folder = Store(parent, options)
    cluster = RealCluster(
        options.nodes, folder.data, options.all_flags, scenario.faults, client_cuts=scenario.client_cuts
    )
    began = time.monotonic()
    try:
        with Bar(title) as bar:
            results = run(options, cluster, folder, bar.show, scenario.play, scenario.expects)
    except KeyboardInterrupt:  # during the check
        results = {"verdict": "unknown", "anomalies": {}, "doubts": ["interrupted"], "broken": "interrupted"}
    except Exception as error:  # noqa: BLE001 - it says nothing about the log, and the others shall be played
        traceback.print_exc()
        results = {"verdict": "broken", "anomalies": {}, "doubts": [f"{type(error).__name__}: {error}"], "broken": None}
    if results["broken"] is not None and results["verdict"] != "invalid":
        results["verdict"] = "interrupted" if results["broken"] == "interrupted" else "broken"
    if results["verdict"] == "valid":
        folder.drop_data()
    return {
        "number": scenario.number,
        "title": scenario.title,
        "verdict": results["verdict"],
        "seconds": round(time.monotonic() - began, 1),
        "folder": folder.path.name,
        "anomalies": results["anomalies"],
        "doubts": results["doubts"],
    }


def _exit_code(rows: list[dict[str, Any]]) -> int:
    """Return the exit code for the worst verdict: invalid or unknown (1), interrupted, could not run, valid (0)."""
    verdicts = {row["verdict"] for row in rows}
    if "invalid" in verdicts or "unknown" in verdicts:
        return 1
    if "interrupted" in verdicts:
        return INTERRUPTED
    return COULD_NOT_RUN if "broken" in verdicts else 0


def _table(rows: list[dict[str, Any]]) -> Table:
    """Return the table of the suite's runs."""
    table = Table("scenario", "verdict", "seconds", "what", "found", box=None, header_style="bold")
    for row in rows:
        found = ", ".join(f"{count} {kind}" for kind, count in row["anomalies"].items())
        seconds = f"{row['seconds']:.0f}"
        table.add_row(row["number"], row["verdict"], seconds, row["title"], found or "; ".join(row["doubts"]))
    return table


def _print_list(wanted: list[Scenario], as_json: bool) -> None:
    """Print the scenarios without running them."""
    describe: Callable[[Scenario], str] = (
        (lambda each: orjson.dumps({"number": each.number, "title": each.title, "faults": each.faults}).decode())
        if as_json
        else (lambda each: f"{each.number:>4}  {each.title}")
    )
    for scenario in wanted:
        click.echo(describe(scenario))
