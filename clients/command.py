"""Command line of the client checks: installs programs, starts three brokers, runs checks, prints a table.

Exit code 0 when every check passed, 1 when one failed or its client could not be installed, 2 for wrong arguments."""

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from clients import connect, exactly_once, kafka_load, kafka_tools, mirror, programs, secured, streams
from clients.checks import READY_S_MAX, Check, CheckFailed, Result
from clients.packages import NotInstalled
from raftlog.testing import BrokerFailed

_SHOWN_CHARACTERS = 120
CHECKS: tuple[Check, ...] = (
    *kafka_tools.CHECKS,
    *kafka_load.CHECKS,
    *programs.CHECKS,
    *connect.CHECKS,
    *streams.CHECKS,
    *exactly_once.CHECKS,
    *mirror.CHECKS,
    *secured.CHECKS,
)
_TERMINATED: Final = 128 + signal.SIGTERM
"""Exit code after SIGTERM, which stops all nodes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the selected checks and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m clients", description=__doc__)
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="a client or a check, or its beginning"
    )
    parser.add_argument("--list", action="store_true", help="print the checks and end")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the brokers")
    given = parser.parse_args(arguments)
    chosen = [check for check in CHECKS if not given.only or any(_is_named(check, name) for name in given.only)]
    if not chosen:
        parser.error(f"no check is named {', '.join(given.only)}; --list prints all")
    if given.list:
        for check in chosen:
            print(f"{check.client}: {check.name}{f' ({check.faults})' if check.faults else ''}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    console = Console(stderr=given.json)
    results = list(run(chosen, given.python, console))
    if given.json:
        print(json.dumps([result.as_json() for result in results], indent=2))
    else:
        console.print(table(results))
        for result in results:
            if not result.is_passed:
                console.print(f"[red]{result.client}: {result.check} {result.faults}[/]: ", end="", highlight=False)
                console.print(result.detail, markup=False, highlight=False)
    return 0 if all(result.is_passed for result in results) else 1


def _is_named(check: Check, name: str) -> bool:
    return check.client.startswith(name) or check.name.startswith(name)


def run(checks: Iterable[Check], python: str, console: Console) -> Iterable[Result]:
    """Run the checks; each client gets a new cluster."""
    clients: dict[str, list[Check]] = {}
    for check in checks:
        clients.setdefault(check.client, []).append(check)
    for client, its in clients.items():
        with its[0].start(python) as cluster:
            for check in its:
                result = _run_one(check, cluster)
                verdict = "[green]passed[/]" if result.is_passed else "[red]failed[/]"
                console.print(
                    f"{verdict} {client}: {check.name} {check.faults} {result.seconds:.1f} s", highlight=False
                )
                yield result


def _run_one(check: Check, cluster: Any) -> Result:
    """Run a check on a healthy cluster, and restart the stopped nodes; return the result, passed or not."""
    begin = time.monotonic()
    try:
        cluster.wait_healthy(READY_S_MAX)
        detail, is_passed = check.run(cluster), True
    except (CheckFailed, NotInstalled, BrokerFailed) as failure:
        detail, is_passed = str(failure), False
    for node in cluster.nodes.values():
        if not node.is_running:
            node.start(READY_S_MAX)
    return Result(check.client, check.name, check.faults, is_passed, round(time.monotonic() - begin, 1), detail)


def table(results: Iterable[Result]) -> Table:
    """Return the table of results."""
    shown = Table("client", "check", "faults", "result", "s", "detail")
    for result in results:
        verdict = "[green]passed[/]" if result.is_passed else "[red]failed[/]"
        shown.add_row(
            result.client,
            result.check,
            result.faults,
            verdict,
            f"{result.seconds:.0f}",
            result.detail[:_SHOWN_CHARACTERS],
        )
    return shown
