"""`raftlog cluster rolling-restart`: restart of every broker, one after another, while the cluster takes writes."""

import asyncio
import shutil
import time
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import click
import orjson
from rich.console import Console
from rich.status import Status

from raftlog.cli.dev.control import send_request
from raftlog.cli.dev.verb import DATA_DIR_DEFAULT
from raftlog.cli.options import NumberRange, bootstrap_option, json_option, option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.rolling.cluster import RollingCluster
from raftlog.cli.rolling.record import RollingRecord
from raftlog.cli.rolling.restarters import CommandRestarter, DevRestarter
from raftlog.cli.rolling.steps import Restarter, RestartUnit, RollingRestart, RollingStep
from raftlog.cli.tables import format_count
from raftlog.client.addresses import BrokerAddresses
from raftlog.client.outage import WARN_AFTER_S
from raftlog.errors import RaftlogError


class _RestartFlags(NamedTuple):
    """Values of the flags of the same names."""

    timeout_s: float
    keep_maintenance: bool
    dry_run: bool


@click.command("rolling-restart")
@option(
    "--data-dir",
    type=click.Path(),
    default=DATA_DIR_DEFAULT,
    help="Data directory of a running `raftlog dev`, whose nodes are restarted.",
)
@option(
    "--command",
    metavar="WORDS",
    help="Command to run for each broker under another supervisor, with {node_id}, {host} and {http} filled in, "
    "such as 'ssh {host} systemctl restart raftlog'; it must end after the broker was restarted.",
)
@option(
    "--python", metavar="PATH", help="Restart nodes of `raftlog dev` with this interpreter, and its raftlog release."
)
@option("--only", metavar="ID,…", help="Restart only these nodes.")
@option("--from-start", is_flag=True, help="Restart all nodes, instead of those that an earlier run has left.")
@option("--timeout", "timeout_s", type=NumberRange(min=1), default=120.0, help="Timeout of each wait, in seconds.")
@option(
    "--keep-maintenance",
    is_flag=True,
    help="Leave brokers in maintenance mode that are in it already. By default it is ended, since an earlier run may "
    "have begun it.",
)
@option("--dry-run", is_flag=True, help="Print the steps without taking them.")
@json_option("Print each step as a line of JSON.")
@bootstrap_option
def rolling_restart(
    data_dir: str,
    command: str | None,
    python: str | None,
    only: str | None,
    from_start: bool,
    timeout_s: float,
    keep_maintenance: bool,
    dry_run: bool,
    as_json: bool,
    bootstrap: BrokerAddresses,
) -> None:
    """Restart the brokers one after another; every partition with three replicas stays writable.

    For each broker: wait until the cluster is healthy, transfer its leaderships, stop it, start it, wait until all its
    replicas are in sync. The leader of the controller comes last. If a step times out the run ends and names it; the
    same command continues from there. --bootstrap is used with --command only.
    """
    if command is not None and python is not None:
        raise click.UsageError("--python is for nodes of raftlog dev; a --command chooses the release by itself")
    chosen = _parse_numbers(only)
    wanted_python = None if python is None else _find_interpreter(python)
    printer = _StepPrinter(as_json)
    flags = _RestartFlags(timeout_s, keep_maintenance, dry_run)
    if command is None:
        directory = Path(data_dir).absolute()
        asyncio.run(_restart_dev(directory, wanted_python, chosen, from_start, flags, printer))
    else:
        asyncio.run(_restart_by_command(command, bootstrap, chosen, flags, printer))


async def _restart_dev(
    directory: Path,
    python: str | None,
    only: list[int] | None,
    from_start: bool,
    flags: _RestartFlags,
    printer: "_StepPrinter",
) -> None:
    """Restart the nodes of `raftlog dev`; without `only` and `from_start`, continue an earlier run."""
    nodes = await send_request(directory, {"order": "nodes"})
    restarter, record = DevRestarter(directory, nodes, python), RollingRecord(directory, python)
    async with RollingCluster(restarter.addresses) as cluster:
        units = all_units = restarter.units((await cluster.read()).brokers)
        if only is not None:
            units = _choose_units(units, only)
        elif not from_start:
            units = record.remaining_units(units) or units
        if not flags.dry_run and (from_start or len(units) == len(all_units)):
            record.begin()
        await _restart_units(cluster, restarter, units, flags, printer, record if only is None else None)


async def _restart_by_command(
    command: str, bootstrap: BrokerAddresses, only: list[int] | None, flags: _RestartFlags, printer: "_StepPrinter"
) -> None:
    """Restart the brokers of a cluster by a command."""
    async with RollingCluster(bootstrap) as cluster:
        restarter = CommandRestarter(command, (await cluster.read()).brokers, flags.timeout_s)
        units = restarter.units()
        await _restart_units(cluster, restarter, _choose_units(units, only), flags, printer, None)


async def _restart_units(
    cluster: RollingCluster,
    restarter: Restarter,
    units: Sequence[RestartUnit],
    flags: _RestartFlags,
    printer: "_StepPrinter",
    record: RollingRecord | None,
) -> None:
    """Restart units one by one, or print the planned steps. The message of a failure has the way to continue."""
    left = list(units)

    def record_restarted(unit: RestartUnit) -> None:
        """Record a restarted unit, so that another run skips it."""
        left.remove(unit)
        if record is not None:
            record.add_restarted(unit)

    began = time.monotonic()
    with printer:
        rolling = RollingRestart(
            cluster,
            restarter,
            timeout_s=flags.timeout_s,
            on_step=printer.on_step,
            on_wait=printer.wait_for,
            done=record_restarted,
            keep_maintenance=flags.keep_maintenance,
        )
        if flags.dry_run:
            for step in await rolling.plan(units):
                printer.on_step(step)
            return
        try:
            await rolling.run(units)
        except (CommandFailed, RaftlogError) as failed:
            words = (f"{failed}.", *_describe_maintenance(rolling.in_maintenance), _describe_continuation(left, record))
            raise CommandFailed(" ".join(words)) from None
        except asyncio.CancelledError:
            click.echo(
                " ".join((*_describe_maintenance(rolling.in_maintenance), _describe_continuation(left, record))),
                err=True,
            )
            raise
    if record is not None:
        record.end()
    printer.end(len(units), time.monotonic() - began)


def _describe_maintenance(nodes: Collection[int]) -> list[str]:
    """Return for each broker left in maintenance a sentence with the command that ends it."""
    return [
        f"Node {node} is left in maintenance, and leads nothing: `raftlog broker maintenance disable {node}` ends it."
        for node in sorted(nodes)
    ]


def _describe_continuation(remaining: Sequence[RestartUnit], record: RollingRecord | None) -> str:
    """Return an instruction for restarting the remaining nodes."""
    if not remaining:
        return "All nodes were restarted; see `raftlog cluster health`"
    names = ",".join(str(unit.node_id) for unit in remaining)
    again = "give the same command again" if record is not None else f"give the same command with --only {names}"
    return f"Left to be restarted: {names}; look at `raftlog cluster health`, and then {again}"


def _parse_numbers(text: str | None) -> list[int] | None:
    """Return the node ids of `--only`, None without it; raises `click.UsageError` for another text."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise click.UsageError(f"--only {text!r} is not a list of node ids, such as 1,3")
    return list(map(int, parts))


def _choose_units(units: Sequence[RestartUnit], only: list[int] | None) -> list[RestartUnit]:
    """Return the units with the ids of `only`, in its order; None: all. Raises `click.UsageError` for an unknown id."""
    if only is None:
        return list(units)
    known = {unit.node_id: unit for unit in units}
    unknown = [node for node in only if node not in known]
    if unknown:
        raise click.UsageError(
            f"there is no node {', '.join(map(str, unknown))}; the nodes are {', '.join(map(str, known))}"
        )
    return [known[node] for node in dict.fromkeys(only)]


def _find_interpreter(path: str) -> str:
    """Return the absolute path of a Python interpreter. Raises `UsageError`."""
    found = shutil.which(path)
    if found is None:
        raise click.UsageError(f"--python {path} cannot be executed")
    return str(Path(found).absolute())


class _StepPrinter:
    """Printer of steps on stdout and of waits on stderr: on a terminal a status, else a line per wait above 1 s."""

    def __init__(self, as_json: bool) -> None:
        """Print steps as text, or as JSON without the progress display."""
        self._as_json = as_json
        self._console = Console(stderr=True, highlight=False)
        is_shown = self._console.is_terminal and not as_json
        self._status: Status | nullcontext[None] = self._console.status("") if is_shown else nullcontext()
        self._wait = self._what = ""
        """Present wait without its reason (`_wait`) and with it (`_what`)."""
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._status.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self.wait_for("")
        self._status.__exit__(*raised)

    def on_step(self, step: RollingStep) -> None:
        """Print a step with its durations."""
        if self._as_json:
            click.echo(orjson.dumps({"event": step.event, "node_id": step.node_id, **step.more}))
            return
        figures = {name: value for name, value in step.more.items() if isinstance(value, float)}
        shown = ", ".join(f"{_NAMES.get(name, name)} {value:.1f} s" for name, value in figures.items())
        click.echo(f"node {step.node_id} {step.text}{f' ({shown})' if shown else ''}")

    def wait_for(self, reason: str) -> None:
        """Show the reason of a wait: on a terminal at once, else if the wait is long. An empty reason ends the wait."""
        if isinstance(self._status, Status):
            self._status.update(reason)
            return
        wait, self._what = reason.partition(":")[0], reason
        if wait == self._wait:
            return
        self._wait = wait
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(WARN_AFTER_S, self._print_wait) if wait else None

    def _print_wait(self) -> None:
        click.echo(self._what, err=True)

    def end(self, count: int, seconds: float) -> None:
        """Print that all nodes were restarted, with their number and the duration."""
        if self._as_json:
            click.echo(orjson.dumps({"event": "finished", "restarted": count, "seconds": round(seconds, 3)}))
        else:
            click.echo(f"{format_count(count, 'node')} restarted in {seconds:.1f} s; the cluster is healthy")


_NAMES = {"stopped_s": "stopped in", "ready_s": "serves after", "seconds": "after"}
