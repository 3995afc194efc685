"""`python -m jepsen.simulation`: run seeds and report broken properties."""

import json
import os
import sys
import time

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from jepsen.simulation.campaign import LEVELS, run_seeds
from jepsen.simulation.kept_seeds import kept_seeds
from jepsen.simulation.outcome import Outcome
from jepsen.simulation.report import failure_json, failure_text, git_revision


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seeds", type=click.IntRange(min=1), default=60, show_default=True, help="How many seeds to run.")
@click.option("--from", "first", type=click.IntRange(min=0), default=1, show_default=True, help="The first seed.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: os.cpu_count() or 1,
    show_default="one for each core",
    help="Processes that run seeds at the same time.",
)
@click.option(
    "--failures-max",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Stop after so many failed seeds.",
)
@click.option(
    "--level",
    type=click.Choice(list(LEVELS)),
    default="driver",
    show_default=True,
    help="Simulated part: Raft groups on drivers, the founding of a cluster, whole brokers (also with a focus on "
    "consumer groups, or on idempotence and compaction of records), or gossip.",
)
@click.option(
    "--members",
    type=click.IntRange(2, 10_000),
    help="Number of members; only with --level gossip, and without its other faults.",
)
@click.option(
    "--loss",
    type=click.FloatRange(0, 0.5),
    help="Share of lost datagrams; only with --level gossip, and without its other faults.",
)
@click.option("--unordered-syncs", is_flag=True, help="Syncs of a disk complete in any order; not with --level gossip.")
@click.option("--cut-ambushes", is_flag=True, help="Cuts of logs meet syncs of segments; only with --level driver.")
@click.option(
    "--lost-files", is_flag=True, help="Small files of brokers are cut, emptied and removed; only with --level broker."
)
@click.option(
    "--early-changes",
    is_flag=True,
    help="New topics are moved, deleted and extended within milliseconds; only with --level broker.",
)
@click.option("--growth", is_flag=True, help="Topics get more partitions; only with --level broker.")
@click.option("--kafka", is_flag=True, help="Brokers serve Kafka's protocol, too; only with --level broker.")
@click.option("--transactions", is_flag=True, help="As --kafka, and clients write in transactions, too.")
@click.option("--kept", is_flag=True, help="Also run the seeds in kept_seeds.json, each of which once found a defect.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def main(
    seeds: int,
    first: int,
    jobs: int,
    failures_max: int,
    level: str,
    members: int | None,
    loss: float | None,
    unordered_syncs: bool,
    cut_ambushes: bool,
    lost_files: bool,
    early_changes: bool,
    growth: bool,
    kafka: bool,
    transactions: bool,
    kept: bool,
    as_json: bool,
) -> None:
    """Simulate whole clusters: one run for each seed, about a minute of virtual time with faults, then convergence.

    With --level gossip and --members or --loss a run has ten minutes, with occasional crashes, departures and returns
    of a member and no other faults. Exit code 1 when any seed failed. A report names the command that repeats it.
    """
    shape = _shape(level, members=members, loss=loss)
    if unordered_syncs:
        if level == "gossip":
            raise click.UsageError("--unordered-syncs is for the levels that have disks")
        shape["unordered_syncs"] = True
    if cut_ambushes:
        if level != "driver":
            raise click.UsageError("--cut-ambushes is for --level driver")
        shape["cut_ambushes"] = True
    of_brokers = {
        "lost_files": lost_files,
        "early_changes": early_changes,
        "growth": growth,
        "kafka": kafka,
        "transactions": transactions,
    }
    for name, is_wanted in of_brokers.items():
        if is_wanted and level != "broker":
            raise click.UsageError(f"--{name.replace('_', '-')} is for --level broker")
        if is_wanted:
            shape[name] = True
    again = [each.seed for each in kept_seeds(level) if kept and each.unordered_syncs == unordered_syncs]
    wanted = list(dict.fromkeys([*range(first, first + seeds), *again]))
    began = time.monotonic()
    outcomes: list[Outcome] = []
    failed = 0
    with _progress(as_json) as progress:
        task = progress.add_task("seeds", total=len(wanted))
        for outcome in run_seeds(wanted, jobs, level, **shape):
            outcomes.append(outcome)
            progress.advance(task)
            if outcome.failure is not None:
                failed += 1
                progress.console.print(f"seed {outcome.seed}: {outcome.failure.name}", style="red", highlight=False)
            if failed >= failures_max:
                break
    _report(sorted(outcomes), time.monotonic() - began, as_json)
    sys.exit(1 if failed else 0)


def _shape(level: str, **wanted: float | None) -> dict[str, float]:
    """Return the options that were given. Raises `UsageError` if the level is not gossip and there are any."""
    shape = {name: value for name, value in wanted.items() if value is not None}
    if shape and level != "gossip":
        raise click.UsageError("--members and --loss are for --level gossip")
    return shape


def _progress(as_json: bool) -> Progress:
    """Return the progress bar of the seeds, on stderr; it is hidden with `as_json`."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=as_json,
    )


def _report(outcomes: list[Outcome], seconds: float, as_json: bool) -> None:
    """Print the figures of all runs and a report of each failed seed, as text or as one JSON object."""
    failures = [outcome for outcome in outcomes if outcome.failure is not None]
    revision = git_revision() if failures else ""
    count = len(outcomes)
    figures = {
        "seeds": count,
        "failed": len(failures),
        "seconds": round(seconds, 1),
        "cpu_s_per_seed": round(sum(outcome.cpu_s for outcome in outcomes) / count, 3),
        "virtual_s": round(sum(outcome.virtual_s for outcome in outcomes)),
        "steps": sum(outcome.steps for outcome in outcomes),
        "acknowledged": sum(outcome.acknowledged for outcome in outcomes),
    }
    if as_json:
        reports = [failure_json(outcome, revision) for outcome in failures]
        click.echo(json.dumps({**figures, "digests": _digests(outcomes), "failures": reports}))
        return
    for outcome in failures:
        click.echo(failure_text(outcome, revision) + "\n")
    click.echo(
        f"{count} seeds, {len(failures)} failed; {figures['seconds']} s, {figures['cpu_s_per_seed']} CPU s a seed; "
        f"{figures['virtual_s']:,} virtual seconds, {figures['steps']:,} steps, "
        f"{figures['acknowledged']:,} acknowledged records"
    )


def _digests(outcomes: list[Outcome]) -> dict[str, str]:
    """Return the digest of each run, by seed."""
    return {str(outcome.seed): outcome.digest for outcome in outcomes}


if __name__ == "__main__":
    main()
