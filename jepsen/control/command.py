"""`python -m jepsen.control`: runs cases and reports the findings of each."""

import importlib.util
import secrets
import sys
import traceback
from pathlib import Path
from typing import Any

import click
import orjson

from jepsen.control.cases import CASES
from jepsen.control.cluster import SyncObjCluster
from jepsen.control.options import ControlOptions
from jepsen.runner.arguments import SECONDS_MAX, Finite, exit_on_store_error, store_option
from jepsen.runner.machine import unsupported_reason
from jepsen.runner.progress import Bar, interrupt_on_sigterm
from jepsen.runner.run import COULD_NOT_RUN, INTERRUPTED, exit_code, run
from jepsen.runner.store import Store
from jepsen.runner.trial import Progress


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--case", "name", type=click.Choice([*CASES, "all"]), default="all", help="What is done to the library.")
@click.option("--repaired", is_flag=True, help="With the cause of the loss removed; then nothing may be found.")
@click.option(
    "--time", "seconds", type=Finite(1, SECONDS_MAX), help="Seconds of load and faults. [default: the case's]"
)
@click.option("--seed", type=click.IntRange(min=0), help="Draws what clients do. [default: any]")
@store_option()
@click.option("--json", "as_json", is_flag=True, help="Print the results of each case as a line of JSON.")
def control(name: str, repaired: bool, seconds: float | None, seed: int | None, store: Path, as_json: bool) -> None:
    """Run the negative control: pysyncobj's replicated list under the same faults, clients and checkers.

    Exit code 1 when anomalies were detected in a case, 0 when nothing was found, 2 when a case could not be run."""
    cases = list(CASES) if name == "all" else [name]
    if importlib.util.find_spec("pysyncobj") is None:
        raise click.UsageError("pysyncobj is missing: pip install 'raftlog[dev]'")
    if reason := unsupported_reason(CASES[case].kind for case in cases):
        raise click.UsageError(reason)
    drawn = secrets.randbelow(1 << 31) if seed is None else seed
    codes = []
    for case in cases:
        options = ControlOptions.of(case, is_repaired=repaired, seconds=seconds, seed=drawn)
        with exit_on_store_error(store):
            folder = Store(store, options)
        try:
            with interrupt_on_sigterm(), Bar() as bar:
                results = run_case(options, folder, bar.show)
        except KeyboardInterrupt:  # during the check or the plots
            click.echo(f"interrupted; the history is in {folder.path}", err=True)
            sys.exit(INTERRUPTED)
        except Exception:  # noqa: BLE001 - whatever broke the harness itself says nothing about the library
            traceback.print_exc()
            sys.exit(COULD_NOT_RUN)
        click.echo(orjson.dumps(results) if as_json else (folder.path / "report.txt").read_text(), nl=as_json)
        codes.append(exit_code(results))
        if results["broken"] == "interrupted":
            break
    sys.exit(max(codes))


def run_case(options: ControlOptions, folder: Store, progress: Progress) -> dict[str, Any]:
    """Run one case and return the content of its `results.json`; the folder contains all files of the run."""
    case = options.case
    cluster = SyncObjCluster(
        options.nodes,
        folder.data,
        lists=options.lists,
        build=options.build,
        delay_ms=case.delay_ms,
        loses_power=case.kind == "power",
    )
    results = run(options, cluster, folder, progress)
    if results["verdict"] == "valid":
        folder.drop_data()
    return results
