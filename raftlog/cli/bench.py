"""`raftlog bench`: load on a cluster, or on one that is started for it, and its results."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import orjson
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from raftlog.cli.options import (
    NumberRange,
    bootstrap_option,
    json_option,
    option,
    read_defaults,
    settings_options,
    usage_errors,
)
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import show
from raftlog.loadgen import LoadMode, LoadPlan, Mix, Result, Targeting, run_session
from raftlog.loadgen import LoadProgress as RunProgress
from raftlog.loadgen.plot import check_can_plot, write_plot
from raftlog.testing import Cluster

MIX_DEFAULT: Final = "send=1,poll=1,commit=1,list=1"
NODES_MAX: Final = 9
_LOAD: Final = {
    "rate": "Operations per second of all clients together; mode open only.",
    "clients": "Number of clients; each has its own consumer group, positions and connections.",
    "in_flight": "Maximum number of operations in flight per client.",
    "value_bytes": "Size of each record's value, in bytes.",
    "records": "Records per send; one is sent as JSON, more as a stored batch.",
    "timeout_ms": "Timeout of an operation at the broker, in milliseconds.",
    "seed": "Seed of the random order of operations.",
}
_PERCENTILES: Final = ("p50", "p95", "p99", "p999", "max")


@click.command()
@option(
    "--local",
    type=click.IntRange(1, NODES_MAX),
    metavar="N",
    help="Start N brokers in a temporary directory and use them.",
)
@option(
    "--mode",
    type=click.Choice([mode.value for mode in LoadMode]),
    default="open",
    help="open: a fixed rate, latencies count from the scheduled time. closed: as fast as answers arrive.",
)
@option("--seconds", type=NumberRange(min=0.1), default=10.0, help="Duration of the run, in seconds.")
@option(
    "--warm-seconds",
    type=NumberRange(min=0),
    default=1.0,
    help="Duration of the same load before the run, which is not measured, in seconds.",
)
@settings_options(read_defaults(LoadPlan), _LOAD)
@option("--mix", default=MIX_DEFAULT, help="Weights of the operations: send, poll, commit and list.")
@option(
    "--to",
    "targeting",
    type=click.Choice([each.value for each in Targeting]),
    default="smart",
    help="smart: send to the leader of the partition or group. any: send to each broker in turn.",
)
@option("--topic", help="Existing topic to use; without it a temporary topic is created and deleted.")
@option("--partitions", type=click.IntRange(min=1), default=1, help="Partitions of the temporary topic.")
@option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Replicas of the temporary topic. [default: chosen by the brokers]",
)
@option(
    "--plot",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write latencies by percentile as SVG; needs `pip install 'raftlog[bench]'`.",
)
@json_option("Print the result as JSON.")
@bootstrap_option
@click.pass_context
def bench(context: click.Context, /, **options: Any) -> None:
    """Put load on a cluster, and show rate, latencies, availability, and messages between brokers.

    \b
    raftlog bench --local 3
    raftlog bench --bootstrap 10.0.0.1:8082 --mode closed --mix send --records 100

    Nothing is retried: every operation without a successful answer lowers the availability. Exit code 1 if no
    operation succeeded.
    """
    local: int | None = options["local"]
    if local is not None and context.get_parameter_source("bootstrap") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--local starts its own brokers; leave out --bootstrap")
    if options["topic"] is not None and local is not None:
        raise click.UsageError("--local starts a cluster without topics; leave out --topic")
    if options["plot"] is not None:
        check_can_plot()
    plan = _make_plan(options)
    with _running_brokers(local, options["bootstrap"], is_verbose=not options["as_json"]) as addresses:
        result = _run(plan, addresses, options)
    if options["plot"] is not None:
        write_plot(result, options["plot"])
    if options["as_json"]:
        click.echo(orjson.dumps(result.as_json()))
    else:
        _show(result)
    if not result.succeeded:
        raise CommandFailed(f"no operation succeeded: {_most_frequent_reason(result)}")


def _make_plan(options: dict[str, Any]) -> LoadPlan:
    """Return the load that the flags describe; raises `click.UsageError` if it is impossible."""
    with usage_errors():
        return LoadPlan(
            mode=LoadMode(options["mode"]),
            targeting=Targeting(options["targeting"]),
            mix=Mix.parse(options["mix"]),
            seconds=options["seconds"],
            **{name: options[name] for name in _LOAD},
        )


@contextmanager
def _running_brokers(local: int | None, bootstrap: Sequence[str], *, is_verbose: bool) -> Iterator[Sequence[str]]:
    """Yield the addresses of the brokers; a local cluster runs until the end of the block."""
    if local is None:
        yield bootstrap
        return
    if is_verbose:
        click.echo(f"starting {local} brokers", err=True)
    with Cluster(local, with_cuts=False, serve_flags=("--log-level", "warning")) as cluster:
        if is_verbose:
            click.echo(f"{local} brokers serve {cluster.bootstrap}", err=True)
        yield cluster.addresses


def _run(plan: LoadPlan, addresses: Sequence[str], options: dict[str, Any]) -> Result:
    """Run the load with a progress bar on a terminal, and return its result."""
    console = Console(stderr=True)
    if not console.is_terminal and not options["as_json"]:
        click.echo(f"load for {plan.seconds:g} s, after {options['warm_seconds']:g} s that are not measured", err=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("warming up", total=plan.seconds)

        def show_progress(progress: RunProgress) -> None:
            """Update the bar."""
            text = f"{progress.succeeded:,} operations"
            failed = progress.ended - progress.succeeded
            bar.update(task, completed=progress.seconds, description=f"{text}, {failed:,} failed" if failed else text)
            bar.refresh()

        return run_session(
            plan,
            addresses,
            options["topic"],
            options["partitions"],
            options["replication_factor"],
            warm_s=options["warm_seconds"],
            on_progress=show_progress,
        )


def _show(result: Result) -> None:
    """Print the rates and latencies of each kind of operation, and the reasons of failures."""
    table = Table(
        "operation", "offered", "succeeded", *(f"{name} ms" for name in _PERCENTILES), box=None, header_style="bold"
    )
    rows = {**{kind: tally.as_json() for kind, tally in result.tallies.items()}, "all": result.as_json()}
    for name, row in rows.items():
        latency = row["latency_ms"]
        cells = (f"{latency[each]:.2f}" if latency else "-" for each in _PERCENTILES)
        table.add_row(name, f"{row['offered']:,}", f"{row['succeeded']:,}", *cells)
    show(table)
    click.echo(
        f"\n{result.operations_per_s:,.1f} operations/s for {result.seconds:.1f} s; availability "
        f"{result.availability_percent:.3f} %, longest time without a success {result.longest_gap_s * 1000:.1f} ms; "
        f"this client took {result.client_cores:.0%} of a core"
    )
    if result.messages_per_operation is not None and result.between is not None:
        ended = max(1, result.ended)
        click.echo(
            f"between brokers, for each operation: {result.messages_per_operation:.2f} messages, "
            f"{result.between.bytes / ended:,.0f} bytes, {result.between.writes / ended:.2f} writes"
        )
    for reason, count in sorted(result.reasons.items(), key=lambda each: -each[1]):
        click.echo(f"{count:,} × {reason}")


def _most_frequent_reason(result: Result) -> str:
    """Return the most frequent reason of failures."""
    return max(result.reasons, key=lambda reason: result.reasons[reason], default="nothing was offered")
