"""`raftlog doctor`: checks of this machine before, or while, it runs a broker."""

import socket
from collections.abc import Iterator

import click
import orjson

from raftlog.cli.doctor.disk_checks import check_data_dir, is_used
from raftlog.cli.doctor.findings import PROBLEM, WARNING, Finding
from raftlog.cli.doctor.network_checks import WantedAddress, check_addresses, check_certificates
from raftlog.cli.doctor.system_checks import check_clock, check_memory, check_open_files, check_versions
from raftlog.cli.options import broker_option, json_option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.serve.plan import ServeSettings, read_serve_settings
from raftlog.cli.tables import Columns, format_count, show, table_of
from raftlog.errors import RaftlogError

_COLORS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command()
@broker_option("--config", type=click.Path(), metavar="FILE", help="Configuration file of the broker.")
@broker_option("--data-dir", type=click.Path(), help="Data directory of the broker. [default: as `raftlog serve`]")
@json_option("Print the findings as JSON.")
def doctor(config: str | None, data_dir: str | None, as_json: bool) -> None:
    """Check whether a broker can run well here: versions, clock, disk, syncs, limits, ports and certificates.

    It checks what `raftlog serve` would use, with the same file and RAFTLOG_ variables; no broker need run. Exits with
    1 if something would keep a broker from starting."""
    findings = list(_examine(config, data_dir))
    problems = [each for each in findings if each.level == PROBLEM]
    if as_json:
        click.echo(orjson.dumps({"can_start": not problems, "findings": [each._asdict() for each in findings]}))
    else:
        show(table_of(findings, _COLUMNS))
        for each in findings:
            if each.advice:
                click.echo(f"{click.style(each.level, fg=_COLORS[each.level])}: {each.check}: {each.advice}")
    if problems:
        names = ", ".join(each.check for each in problems)
        raise CommandFailed(f"a broker would not start: {format_count(len(problems), 'problem')} ({names})")
    if not as_json:
        warnings = sum(each.level == WARNING for each in findings)
        click.echo(f"a broker can start; {format_count(warnings, 'warning')}")


def _examine(config: str | None, data_dir: str | None) -> Iterator[Finding]:
    """Yield the findings of all checks, in order; without valid settings only those that need none."""
    yield from check_versions()
    yield check_clock()
    yield check_open_files()
    try:
        settings = read_serve_settings(config, [] if data_dir is None else ["--data-dir", data_dir])
    except (CommandFailed, RaftlogError, click.ClickException, OSError) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        yield Finding("settings", PROBLEM, text, "`raftlog config check` shows the settings")
        return
    broker = settings.broker
    yield check_memory(broker.memory_budget_bytes)
    yield from check_data_dir(broker.data_dir, broker.node_id, broker.storage_min_free_bytes)
    yield from check_addresses(_addresses(settings), is_running=is_used(broker.data_dir))
    yield from check_certificates(
        {name: tls.period.ends for name, tls in settings.listeners.tls.items() if tls.period is not None}
    )


def _addresses(settings: ServeSettings) -> Iterator[WantedAddress]:
    """Yield the addresses on which a broker with these settings would listen."""
    plan, rpc, gossip = settings.listeners, settings.broker.rpc, settings.broker.gossip
    yield WantedAddress("http", plan.host, plan.port)
    for each in plan.kafka.listeners:
        yield WantedAddress(each.name, each.host, each.port, plan.kafka.is_optional)
    if rpc is not None:
        yield WantedAddress("rpc", *rpc)
    if gossip is not None:
        kinds = (socket.SOCK_DGRAM, socket.SOCK_STREAM)
        yield WantedAddress("gossip", gossip.host, gossip.port, not gossip.is_required, kinds)


_COLUMNS: Columns[Finding] = {
    "check": lambda each: each.check,
    "": lambda each: each.level,
    "found": lambda each: each.text,
}
