"""`python -m jepsen test`: options, progress, report, exit code."""

import secrets
import sys
import traceback
from pathlib import Path
from typing import Final

import click
import orjson

from clients.packages import NotInstalled
from jepsen.nemeses.fault import KINDS, FaultKind
from jepsen.nemeses.kind_table import FACTS
from jepsen.runner.arguments import RATE_MAX, SECONDS_MAX, Finite, exit_on_store_error, store_option, sync_method_option
from jepsen.runner.cluster import RealCluster
from jepsen.runner.machine import unsupported_reason
from jepsen.runner.options import RunOptions
from jepsen.runner.progress import Bar, interrupt_on_sigterm
from jepsen.runner.run import COULD_NOT_RUN, INTERRUPTED, exit_code, run
from jepsen.runner.store import Store
from jepsen.workloads.adapters.java_process import java_command
from jepsen.workloads.adapters.port import CLIENT_NAMES, ClientName
from jepsen.workloads.catalogue import CLIENT_WORKLOADS, WORKLOADS

NODES_MAX: Final = 9


def _parse_fault_kinds(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[FaultKind, ...]:
    """Parse `kill,pause`, `all` or `none`."""
    if text == "all":
        return KINDS
    wanted = [] if text == "none" else [name.strip() for name in text.split(",")]
    unknown = [name for name in wanted if name not in KINDS]
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)!r}; faults are {', '.join(KINDS)}, all or none")
    return tuple(kind for kind in KINDS if kind in wanted)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--workload", type=click.Choice(list(WORKLOADS)), default="log", help="What the clients do.")
@click.option(
    "--client",
    type=click.Choice(CLIENT_NAMES),
    default="http",
    help="Library of the clients; those of Kafka's protocol know log, idempotent, groups and transactions, "
    "and java knows transactions.",
)
@click.option(
    "--faults",
    callback=_parse_fault_kinds,
    default="kill,pause,cut",
    help="Kinds of faults, with commas; all, or none.",
)
@click.option("--time", "seconds", type=Finite(1, SECONDS_MAX), default=60.0, help="Seconds of load and faults.")
@click.option("--nodes", type=click.IntRange(1, NODES_MAX), default=3, help="Brokers.")
@click.option("--clients", type=click.IntRange(1, 64), default=6, help="Client processes.")
@click.option("--rate", type=Finite(1, RATE_MAX), default=500.0, help="Operations a second, of all clients together.")
@click.option("--seed", type=click.IntRange(min=0), help="Draws the faults and what clients do. [default: any]")
@sync_method_option()
@store_option()
@click.option("--keep", is_flag=True, help="Keep the brokers' data of a valid run as well.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object instead of text.")
def test(
    workload: str,
    client: ClientName,
    faults: tuple[FaultKind, ...],
    seconds: float,
    nodes: int,
    clients: int,
    rate: float,
    seed: int | None,
    sync_method: str,
    store: Path,
    keep: bool,
    as_json: bool,
) -> None:
    """Try to make real brokers lose data: clients, faults, a final drain, and checkers.

    Exit code 0 valid, 1 invalid or unknown (too little happened for a verdict), 2 the test could not be run.
    """
    if workload not in CLIENT_WORKLOADS[client]:
        raise click.UsageError(f"--client {client} knows the workloads {', '.join(CLIENT_WORKLOADS[client])}")
    needed = {kind: FACTS[kind].nodes_min for kind in faults}
    if few := [f"{kind} needs --nodes {least} or more" for kind, least in needed.items() if nodes < least]:
        raise click.UsageError("; ".join(few))
    if reason := unsupported_reason(faults):
        raise click.UsageError(reason)
    if client == "java":
        try:
            java_command()
        except NotInstalled as error:
            raise click.UsageError(f"--client java: {error}") from error
    drawn = secrets.randbelow(1 << 31) if seed is None else seed
    flags = ("--sync-method", sync_method)
    options = RunOptions(workload, faults, seconds, nodes, clients, rate, drawn, serve_flags=flags, client=client)
    with exit_on_store_error(store):
        folder = Store(store, options)
    try:
        with interrupt_on_sigterm(), Bar() as bar:
            results = run(options, RealCluster(nodes, folder.data, options.all_flags, faults), folder, bar.show)
    except KeyboardInterrupt:  # during the check or the plots
        click.echo(f"interrupted; the history is in {folder.path}", err=True)
        sys.exit(INTERRUPTED)
    except Exception:  # noqa: BLE001 - whatever broke the harness itself says nothing about the log
        traceback.print_exc()
        sys.exit(COULD_NOT_RUN)
    if results["verdict"] == "valid" and not keep:
        folder.drop_data()
    click.echo(orjson.dumps(results) if as_json else (folder.path / "report.txt").read_text(), nl=as_json)
    sys.exit(exit_code(results))
