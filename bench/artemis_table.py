"""Rows of Artemis's table, run once, with the purpose of each message: `python -m bench.artemis_table --row smart`."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from rich.table import Table

from bench.artemis import MIX, RATE, ROWS, SECONDS, measure_rows
from raftlog.cli.tables import show


@click.command(context_settings={"show_default": True})
@click.option(
    "--row", "rows", multiple=True, type=click.Choice(list(ROWS)), help="Row to run; repeatable. [default: all]"
)
@click.option("--seconds", type=float, default=SECONDS, help="Duration of each row.")
@click.option("--rate", type=float, default=RATE, help="Operations a second that are offered.")
@click.option("--mix", default=MIX, help="Weights of the operations.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def main(rows: tuple[str, ...], seconds: float, rate: float, mix: str, as_json: bool) -> None:
    """Run rows of the table once, on a new cluster in a temporary directory below the current one."""
    with TemporaryDirectory(prefix="artemis-", dir=".") as directory:
        found = measure_rows(Path(directory).resolve(), dict.fromkeys(rows or ROWS, seconds), rate, mix)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    show(table_of(found))
    for row, result in found.items():
        print(row, json.dumps(result["between_brokers"]["by_kind_per_operation"]), result["reasons"] or "")


def table_of(found: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the results as a table with Artemis's columns."""
    columns = (
        "messages/op",
        "availability",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "max ms",
        "operations/s",
        "brokers CPU µs/op",
    )
    table = Table("row", *columns, box=None, header_style="bold")
    for row, result in found.items():
        latency = result["latency_ms"]
        table.add_row(
            row,
            f"{result['between_brokers']['messages_per_operation']:.2f}",
            f"{result['availability_percent']:.3f} %",
            *(f"{latency.get(name, float('nan')):.2f}" for name in ("p50", "p95", "p99", "max")),
            f"{result['operations_per_s']:,.0f}",
            f"{result['brokers_cpu_us']:,.0f}",
        )
    return table


if __name__ == "__main__":
    main()
